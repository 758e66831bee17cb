//! The tasks of the manager that must not end, each with its role. Their owner learns of every end, including a panic.

use std::collections::HashMap;
use std::future::pending;

use tokio::task::{Id, JoinError, JoinSet};

/// The running tasks, by role.
pub(crate) struct Tasks<Role> {
    running: JoinSet<()>,
    roles: HashMap<Id, Role>,
}

impl<Role> Default for Tasks<Role> {
    fn default() -> Self {
        Self { running: JoinSet::new(), roles: HashMap::new() }
    }
}

impl<Role: PartialEq> Tasks<Role> {
    /// The task of this role is about to end, since it was told to: [`Self::ended`] does not report it.
    pub fn let_end(&mut self, role: &Role) {
        self.roles.retain(|_, running| running != role);
    }

    /// Starts one.
    pub fn start(&mut self, role: Role, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.roles.insert(id, role);
    }

    /// Waits for the next end: the task's role, and how it ended. Cancel safe; never returns while none runs.
    pub async fn ended(&mut self) -> (Role, String) {
        loop {
            let (id, how) = match self.running.join_next_with_id().await {
                None => pending().await,
                Some(Ok((id, ()))) => (id, "it returned".to_owned()),
                Some(Err(error)) => (error.id(), reason(error)),
            };
            // One that was told to end has no role any more.
            if let Some(role) = self.roles.remove(&id) {
                return (role, how);
            }
        }
    }

    /// Waits until all have ended; they were told to before.
    pub async fn all_ended(mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

/// Why a task ended, for people.
pub(crate) fn reason(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("it panicked: {}", text.unwrap_or_else(|| "(without a text)".into()))
        }
        Err(_) => "it was broken off".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_end_is_heard_with_its_role_and_reason() {
        let mut tasks = Tasks::default();
        tasks.start("panics", async { panic!("a value of {} was not expected", 7) });
        assert_eq!(tasks.ended().await, ("panics", "it panicked: a value of 7 was not expected".into()));
        tasks.start("returns", async {});
        tasks.start("stays", pending());
        assert_eq!(tasks.ended().await, ("returns", "it returned".into()));
        tasks.start("was told to end", async {});
        tasks.let_end(&"was told to end");
        let next = tokio::time::timeout(std::time::Duration::from_millis(20), tasks.ended()).await;
        assert!(next.is_err(), "one still runs, and the end of the other was ordered");
    }
}
