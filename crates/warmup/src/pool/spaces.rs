//! A server's tablespaces: their numbers, names and sizes, and which of them correspond to those of another server.

use std::collections::BTreeMap;

/// A tablespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The name in InnoDB: `shop/orders`, `shop/orders#P#p0`, `innodb_system`; other characters are encoded as in file names (`@0020`).
    pub name: String,
    /// The size of its file in pages; `None` when it is not known.
    pub pages: Option<u64>,
}

/// The kind of a tablespace, which decides whether another server can have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpaceKind {
    /// Of a table, of a partition, or made with CREATE TABLESPACE: one with the same name on another server is the same.
    Named,
    /// The server's own: the system tablespace, undo logs, temporary tables, the data dictionary. The contents of a page there differ
    /// between servers, and the server reads these pages at its start or by itself.
    Own,
    /// Of a full-text index: its name has numbers that are the server's own, and may belong to another table elsewhere.
    FullText,
}

impl Space {
    /// Its kind, by its name.
    pub fn kind(&self) -> SpaceKind {
        let Some((schema, table)) = self.name.split_once('/') else {
            let is_own = self.name.starts_with("innodb_") || self.name == "mysql";
            return if is_own { SpaceKind::Own } else { SpaceKind::Named };
        };
        match table {
            _ if schema == "mysql" || schema == "sys" => SpaceKind::Own,
            _ if table.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("FTS_")) => {
                SpaceKind::FullText
            }
            // From ALTER TABLE, and of temporary tables.
            _ if table.starts_with("#sql") => SpaceKind::Own,
            _ => SpaceKind::Named,
        }
    }

    /// A key that is equal for the same tablespace on two servers. MySQL 8 writes `#p#`, MariaDB and older versions `#P#`.
    fn key(&self) -> String {
        self.name.replace("#P#", "#p#").replace("#SP#", "#sp#")
    }
}

/// The tablespaces of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spaces {
    by_number: BTreeMap<u32, Space>,
    by_key: BTreeMap<String, u32>,
}

impl Spaces {
    /// Adds a tablespace; a number that exists already gets the new name.
    pub fn insert(&mut self, number: u32, space: Space) {
        self.by_key.insert(space.key(), number);
        if let Some(old) = self.by_number.insert(number, space).map(|old| old.key())
            && self.by_number.get(&number).is_some_and(|new| new.key() != old)
        {
            self.by_key.remove(&old);
        }
    }

    /// The tablespace with this number.
    pub fn get(&self, number: u32) -> Option<&Space> {
        self.by_number.get(&number)
    }

    /// The tablespace that corresponds to another server's `space`, with its number.
    pub fn same_as(&self, space: &Space) -> Option<(u32, &Space)> {
        let number = *self.by_key.get(&space.key())?;
        Some((number, self.by_number.get(&number)?))
    }

    /// All tablespaces, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Space)> {
        self.by_number.iter().map(|(number, space)| (*number, space))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(name: &str) -> Space {
        Space { name: name.to_owned(), pages: None }
    }

    #[test]
    fn a_tablespaces_kind_follows_from_its_name() {
        for (name, kind) in [
            ("shop/orders", SpaceKind::Named),
            ("shop/orders#P#p0", SpaceKind::Named),
            ("shop/a@0020b", SpaceKind::Named),
            ("shop/ftse", SpaceKind::Named),
            ("shared", SpaceKind::Named),
            ("innodb_system", SpaceKind::Own),
            ("innodb_undo001", SpaceKind::Own),
            ("innodb_temporary", SpaceKind::Own),
            ("mysql", SpaceKind::Own),
            ("mysql/innodb_table_stats", SpaceKind::Own),
            ("shop/#sql-ib1234", SpaceKind::Own),
            ("shop/FTS_0000000000000012_CONFIG", SpaceKind::FullText),
            ("shop/fts_0000000000000012_000000000000001e_index_1", SpaceKind::FullText),
        ] {
            assert_eq!(space(name).kind(), kind, "{name}");
        }
    }

    #[test]
    fn partitions_are_found_in_either_spelling() {
        let mut spaces = Spaces::default();
        spaces.insert(9, space("shop/t#p#p0#sp#s1"));
        assert_eq!(spaces.same_as(&space("shop/t#P#p0#SP#s1")).unwrap().0, 9);
        assert!(spaces.same_as(&space("shop/t#P#p1")).is_none());
    }

    #[test]
    fn a_number_that_comes_twice_has_its_last_name() {
        let mut spaces = Spaces::default();
        spaces.insert(9, space("shop/a"));
        spaces.insert(9, space("shop/b"));
        assert_eq!((spaces.len(), spaces.get(9).unwrap().name.as_str()), (1, "shop/b"));
        assert!(spaces.same_as(&space("shop/a")).is_none() && spaces.same_as(&space("shop/b")).is_some());
    }
}
