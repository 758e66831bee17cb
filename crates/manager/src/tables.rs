//! Reads from a node the names that change what a statement may do; see [`topology::catalogue`].
//!
//! A view counts as writing when the scanner that examines clients' statements does not find its definition to be a plain read, or when it
//! names a view that counts.

use std::collections::BTreeSet;
use std::time::Duration;

use link::{Link, Login, Rows};
use protocol::statement::{Statement, StatementKind, names_any};
use topology::catalogue::{CALLABLE, Catalogue, PRIVILEGES, REACH, Sight, TABLES, VIEWS};

use crate::failed::{Failed, in_time};

/// The result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// All of them.
    Known(Catalogue),
    /// The account is not shown enough.
    Hidden,
}

/// Asks the node at `address`.
pub(crate) async fn read(address: &str, login: &Login, within: Duration) -> Result<Names, Failed> {
    in_time(within, async {
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
        let callable = link.query(CALLABLE, within).await?;
        let views = link.query(VIEWS, within).await?;
        let writing = writing_reads(sight, &pairs(&callable), &pairs(&views));
        Ok(Names::Known(Catalogue::new(names, writing).with_views(first_column(&views))))
    })
    .await
}

fn first_column(rows: &Rows) -> Vec<String> {
    (0..rows.len()).filter_map(|row| rows.text(row, 0).map(Into::into)).collect()
}

fn pairs(rows: &Rows) -> Vec<(&str, &str)> {
    (0..rows.len())
        .filter_map(|row| Some((rows.text(row, 0)?, rows.text(row, 1).unwrap_or_default())))
        .collect()
}

/// The names that may write when they are read, from the rows of [`CALLABLE`] and [`VIEWS`].
fn writing_reads(sight: Sight, callable: &[(&str, &str)], views: &[(&str, &str)]) -> BTreeSet<String> {
    let may_call = !sight.reach || !callable.is_empty();
    let is_read = |text: &str| Statement::of(text.as_bytes()).kind == StatementKind::Read;
    let mut names: BTreeSet<String> = callable
        .iter()
        .filter(|(what, name)| match *what {
            "remote" => true,
            // A call of any other function is visible in the statement itself.
            "function" => is_read(&format!("SELECT {name}(1)")) || is_read(&format!("SELECT {name} (1)")),
            _ => false,
        })
        .map(|(_, name)| name.to_lowercase())
        .collect();
    let (counted, mut others): (Vec<_>, Vec<_>) =
        views.iter().partition(|(_, text)| if text.is_empty() { may_call } else { !is_read(text) });
    names.extend(counted.into_iter().map(|(name, _)| name.to_lowercase()));
    // Repeated until no view names one that was added last.
    while !names.is_empty() {
        let names_one = |text: &str| names_any(text.as_bytes(), 0, |name| names.contains(name));
        let (more, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|(_, text)| names_one(text));
        others = rest;
        if more.is_empty() {
            break;
        }
        names.extend(more.into_iter().map(|(name, _)| name.to_lowercase()));
    }
    names
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

    /// What is read as `user`; of it, what is not rolled back.
    async fn names(address: &str, user: &str) -> Option<Vec<String>> {
        catalogue(address, user).await.map(|catalogue| catalogue.untransactional.into_iter().collect())
    }

    async fn catalogue(address: &str, user: &str) -> Option<Catalogue> {
        match read(address, &Login::new(user, Secret::None), WITHIN).await.unwrap() {
            Names::Known(catalogue) => Some(catalogue),
            Names::Hidden => None,
        }
    }

    fn known(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(ToString::to_string).collect())
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
        assert_eq!(names(&address, "blind").await, None);
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
        assert_eq!(names(&address, "blind").await, None);
        assert_eq!(names(&address, "short").await, None, "it would miss triggers and functions");
        let all = known(&["counted", "fleeting", "log", "old", "safe", "shown"]);
        assert_eq!(names(&address, "watch@home").await, all);
    }

    #[tokio::test]
    async fn views_that_may_run_stored_code_are_known() {
        let server = fixture::Server::start(&[]);
        let address = server.address().to_string();
        run(
            &address,
            &[
                "CREATE USER `watch@home`@'%'",
                "GRANT TRIGGER, EXECUTE ON *.* TO `watch@home`@'%'",
                "CREATE USER sees@'%'",
                "GRANT TRIGGER, EXECUTE, SELECT, SHOW VIEW ON *.* TO sees@'%'",
                "CREATE USER short@'%'",
                "GRANT SHOW VIEW ON *.* TO short@'%'",
                "CREATE TABLE shop.safe (id INT PRIMARY KEY, name VARCHAR(20), at DATETIME)",
                "CREATE VIEW shop.plain AS SELECT IFNULL(name, 'it\\'s') AS a, CAST(name AS CHAR(10)) AS b, DATE_FORMAT(at, '%Y') AS c, \
                     at + INTERVAL 1 DAY AS d, EXTRACT(YEAR FROM at) AS e, CASE WHEN id IN (1, 2) THEN 1 ELSE COALESCE(name, 2) END AS f, \
                     CURRENT_TIMESTAMP() AS g, CAST(id AS DECIMAL(10,2)) AS h FROM shop.safe",
                "CREATE VIEW shop.sums AS SELECT COUNT(*) AS n, GROUP_CONCAT(s.name SEPARATOR ',') AS m \
                     FROM shop.safe s LEFT JOIN shop.plain p ON (p.b = s.name) GROUP BY s.at",
            ],
        )
        .await;
        let reads = async |user| {
            catalogue(&address, user)
                .await
                .map(|catalogue| catalogue.writing_reads.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(reads("watch@home").await, known(&[]), "there is nothing that a view could call");
        assert_eq!(reads("sees").await, known(&[]));
        assert_eq!(
            reads("short").await,
            known(&["plain", "sums"]),
            "there may be functions that it does not see"
        );
        run(
            &address,
            &[
                "CREATE FUNCTION shop.noted() RETURNS INT RETURN 1",
                "CREATE FUNCTION shop.any_value(x INT) RETURNS INT RETURN x",
                "CREATE SEQUENCE shop.numbers",
                "CREATE VIEW shop.Direct AS SELECT shop.noted() AS x",
                "CREATE VIEW shop.nested AS SELECT x FROM shop.Direct",
                "CREATE VIEW shop.deeper AS SELECT n.x FROM shop.safe JOIN shop.nested n ON n.x = safe.id",
                "CREATE VIEW shop.drawn AS SELECT NEXTVAL(shop.numbers) AS n",
            ],
        )
        .await;
        assert_eq!(reads("sees").await, known(&["any_value", "deeper", "direct", "drawn", "nested"]));
        let all = known(&["any_value", "deeper", "direct", "drawn", "nested", "plain", "sums"]);
        assert_eq!(reads("watch@home").await, all, "their definitions are not shown to it");
    }
}
