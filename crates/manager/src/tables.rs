//! Reads from a node which names a statement may not touch if it is to be rolled back whole; see [`topology::catalogue`].

use std::time::Duration;

use link::{Link, Login, Rows};
use tokio::time::timeout;
use topology::catalogue::{PRIVILEGES, REACH, Sight, TABLES};

use crate::act::Failed;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// All of them, as the server writes them.
    Known(Vec<String>),
    /// The account may not see enough to say.
    Hidden,
}

/// Asks the node at `address`.
pub(crate) async fn read(address: &str, login: &Login, within: Duration) -> Result<Names, Failed> {
    let read = async {
        let mut link = Link::connect(address, login, within).await?;
        let privileges = link.query(PRIVILEGES, within).await?;
        let held: Vec<&str> = (0..privileges.len()).filter_map(|row| privileges.text(row, 0)).collect();
        let sight = Sight::of(&held);
        if !sight.tables {
            return Ok(Names::Hidden);
        }
        let mut names = first_column(&link.query(TABLES, within).await?);
        if !names.is_empty() {
            if !sight.reach {
                return Ok(Names::Hidden);
            }
            names.extend(first_column(&link.query(REACH, within).await?));
        }
        Ok(Names::Known(names))
    };
    let late = || Failed { errno: 0, why: format!("no answer within {within:?}") };
    timeout(within, read).await.unwrap_or_else(|_| Err(late()))
}

fn first_column(rows: &Rows) -> Vec<String> {
    (0..rows.len()).filter_map(|row| rows.text(row, 0).map(Into::into)).collect()
}

#[cfg(test)]
mod tests {
    use link::Secret;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

    /// Sends each statement to the server as somebody who may do everything.
    async fn run(address: &str, statements: &[&str]) {
        let all = Login::new("app", Secret::Password("secret".into()));
        let mut link = Link::connect(address, &all, WITHIN).await.unwrap();
        for statement in statements {
            link.query(statement, WITHIN).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    async fn names(address: &str, user: &str) -> Names {
        let mut names = read(address, &Login::new(user, Secret::None), WITHIN).await.unwrap();
        if let Names::Known(names) = &mut names {
            names.sort();
        }
        names
    }

    fn known(names: &[&str]) -> Names {
        Names::Known(names.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn what_is_not_rolled_back_and_what_may_reach_it_is_known_or_hidden() {
        let server = fixture::Server::start(&[]);
        let address = server.address().to_string();
        run(
            &address,
            &[
                "CREATE USER blind@'%'",
                "GRANT SUPER, PROCESS ON *.* TO blind@'%'",
                "CREATE USER short@'%'",
                "GRANT SHOW VIEW ON *.* TO short@'%'",
                "CREATE USER `watch@home`@'%'",
                "GRANT TRIGGER, EXECUTE ON *.* TO `watch@home`@'%'",
                "CREATE TABLE shop.safe (id INT PRIMARY KEY) ENGINE = InnoDB",
                "CREATE TABLE shop.parted (id INT PRIMARY KEY) ENGINE = InnoDB PARTITION BY HASH (id) PARTITIONS 2",
                "CREATE SEQUENCE shop.numbers",
                "CREATE VIEW shop.shown AS SELECT * FROM shop.safe",
                "CREATE FUNCTION shop.counted() RETURNS INT RETURN 1",
                "CREATE PROCEDURE shop.called() SELECT 1",
            ],
        )
        .await;
        assert_eq!(names(&address, "blind").await, Names::Hidden);
        assert_eq!(names(&address, "short").await, known(&[]));
        assert_eq!(names(&address, "watch@home").await, known(&[]));
        run(
            &address,
            &[
                "CREATE TABLE shop.Log (id INT) ENGINE = Aria",
                "CREATE TABLE shop.old (id INT) ENGINE = MyISAM",
                "CREATE TABLE shop.fleeting (id INT) ENGINE = MEMORY",
                "CREATE TRIGGER shop.noted AFTER INSERT ON shop.safe FOR EACH ROW INSERT INTO shop.Log VALUES (1)",
            ],
        )
        .await;
        assert_eq!(names(&address, "blind").await, Names::Hidden);
        assert_eq!(names(&address, "short").await, Names::Hidden, "it would miss triggers and functions");
        let all = known(&["Log", "counted", "fleeting", "old", "safe", "shown"]);
        assert_eq!(names(&address, "watch@home").await, all);
    }
}
