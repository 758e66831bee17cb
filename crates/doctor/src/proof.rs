//! Tries `proof_command` (`bootstrap = "proven"`) on the nodes that answer, and reports the result: the command must not call such a node
//! dead, and it must be able to look at it.
//!
//! Only nodes that answer are tried: on a running server there is nothing to recover, so the command starts and writes nothing there.

use manager::Trial;

use super::judge::{Finding, Weight};
use settings::{Settings, table as t};

/// The result for one node.
pub struct Tried {
    /// The node's name.
    pub node: String,
    /// Why the result is right, or what is wrong. One sentence each.
    pub verdict: Result<String, String>,
}

/// Tries the command for these nodes (name and address), concurrently; returns nothing where the setting is off.
pub async fn all(settings: &Settings, answering: Vec<(String, String)>) -> Vec<Tried> {
    let Some(command) = settings.get(&t::CLUSTER_PROOF_COMMAND) else { return Vec::new() };
    let within = settings.get(&t::CLUSTER_PROOF_DEADLINE);
    let tasks: Vec<_> = answering
        .into_iter()
        .map(|(node, address)| {
            let (command, name) = (command.clone(), node.clone());
            let tried = async move { manager::try_proof(&command, &name, &address, within).await };
            (node, tokio::spawn(tried))
        })
        .collect();
    let mut all = Vec::new();
    for (node, task) in tasks {
        let trial = task.await.unwrap_or_else(|error| Trial::Failed(error.to_string()));
        let verdict = verdict(&node, trial);
        all.push(Tried { node, verdict });
    }
    all
}

fn verdict(node: &str, trial: Trial) -> Result<String, String> {
    match trial {
        Trial::Alive(said) => {
            Ok(format!("cluster.proof_command does not call {node} dead, which answers. It said: {said}"))
        }
        Trial::CallsItDead => Err(format!(
            "cluster.proof_command ended with exit code 0 for {node}, which answers: it would call a server dead that runs, and two Primary \
             components could come of that. It must look at the process on the node's own host, as `understudy recovery position` does"
        )),
        Trial::Failed(why) => Err(format!(
            "cluster.proof_command could not look at {node}, so that it could never prove its death: {why}"
        )),
    }
}

/// The results as findings of the doctor's report.
pub fn findings(tried: Vec<Tried>) -> Vec<Finding> {
    let finding = |Tried { node, verdict }: Tried| {
        let (weight, what, because) = match verdict {
            Ok(well) => (
                Weight::Advice,
                well,
                "compare: these should be the words of somebody who looked at the process".to_owned(),
            ),
            Err(wrong) => (
                Weight::Problem,
                wrong,
                "bootstrap = \"proven\" makes the nodes that are left Primary on this command's word alone"
                    .to_owned(),
            ),
        };
        Finding { weight, nodes: vec![node], what, because, sql: Vec::new(), my_cnf: Vec::new() }
    };
    tried.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_that_looks_and_does_not_call_it_dead_is_well() {
        assert!(
            verdict("db1", Trial::Alive("a server runs".into())).unwrap().ends_with("It said: a server runs")
        );
        assert!(verdict("db1", Trial::CallsItDead).unwrap_err().contains("two Primary components"));
        let away = verdict("db1", Trial::Failed("no route".into()));
        assert!(away.as_ref().unwrap_err().ends_with("no route"));
        let found = findings(vec![Tried { node: "db1".into(), verdict: away }]);
        assert_eq!((found.len(), found[0].weight), (1, Weight::Problem));
    }
}
