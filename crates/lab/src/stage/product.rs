//! Which server a program is, by what it says of its version.

use anyhow::{Context, bail};

/// Whose server it is: the two differ in their settings, and in the words of replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// MariaDB.
    MariaDb,
    /// MySQL.
    MySql,
}

impl Product {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        }
    }

    /// The oldest version that a stage can be of: MariaDB's has Galera 4 and its accounts in `mysql.global_priv`; MySQL's is the first with
    /// the plugins `rpl_semi_sync_source` and `rpl_semi_sync_replica`.
    fn oldest(self) -> [u32; 3] {
        match self {
            Self::MariaDb => [10, 4, 0],
            Self::MySql => [8, 0, 26],
        }
    }
}

/// A server's product and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whose server it is.
    pub product: Product,
    /// As the program says it: `10.11.19-MariaDB-0+deb12u1`, `9.7.4-2`.
    pub text: String,
}

impl Version {
    /// From the output of the server with `--version`: `mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64`,
    /// `mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))`.
    ///
    /// # Errors
    /// When there is no version in it, or one that is too old for a stage.
    pub fn of(output: &str) -> anyhow::Result<Self> {
        let mut words = output.split_whitespace().skip_while(|word| *word != "Ver").skip(1);
        let text = words.next().with_context(|| format!("it says no version: {output:?}"))?.to_owned();
        let product = if text.contains("MariaDB") { Product::MariaDb } else { Product::MySql };
        let oldest = product.oldest();
        // As numbers: MariaDB has reached 12, and MySQL goes on from 9.7 with the year and the month.
        if number(&text).with_context(|| format!("{text:?} is no version"))? < oldest {
            let [major, minor, patch] = oldest;
            bail!("it is {text}: a stage needs {} {major}.{minor}.{patch} or newer", product.name());
        }
        Ok(Self { product, text })
    }
}

/// The three numbers at the beginning of a version.
fn number(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split(|character: char| !character.is_ascii_digit());
    let mut part = || parts.next()?.parse().ok();
    Some([part()?, part()?, part()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (output, product) in [
            (
                "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
                Product::MariaDb,
            ),
            (
                "mariadbd  Ver 11.8.9-MariaDB-0+deb13u1 from Debian for debian-linux-gnu on x86_64",
                Product::MariaDb,
            ),
            ("mariadbd  Ver 12.0.2-MariaDB for Linux on x86_64", Product::MariaDb),
            ("/usr/sbin/mysqld  Ver 8.0.36-28.1 for Linux on x86_64 (Percona)", Product::MySql),
            ("/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", Product::MySql),
            ("/usr/sbin/mysqld  Ver 26.7.0 for Linux on x86_64", Product::MySql),
        ] {
            assert_eq!(Version::of(output).unwrap().product, product, "{output}");
        }
        for (output, error) in [
            ("mysqld  Ver 5.7.44 for Linux", "it is 5.7.44: a stage needs MySQL 8.0.26 or newer"),
            (
                "mariadbd  Ver 10.3.39-MariaDB for Linux",
                "it is 10.3.39-MariaDB: a stage needs MariaDB 10.4.0 or newer",
            ),
            ("mysqld: no", "it says no version: \"mysqld: no\""),
            ("mysqld Ver nine", "\"nine\" is no version"),
        ] {
            assert_eq!(Version::of(output).unwrap_err().to_string(), error);
        }
    }
}
