//! Translates one server's pages to another's by the names of their tablespaces, limited to what fits into its pool.

use std::collections::HashMap;

use super::snapshot::{Page, Snapshot};
use super::spaces::{SpaceKind, Spaces};

/// The pages to load, and how many of the dump's are not among them, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// Most recently used first.
    pub pages: Vec<Page>,
    /// The pages that are not loaded.
    pub left_out: LeftOut,
}

/// Pages that are not loaded, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Of the server's own tablespaces: system, undo, temporary, dictionary.
    pub own: u64,
    /// Of full-text indexes.
    pub full_text: u64,
    /// Of tablespaces that no longer existed when the server was queried for their names.
    pub nameless: u64,
    /// Of tables that the standby does not have.
    pub missing: u64,
    /// Beyond the end of the standby's file.
    pub beyond_end: u64,
    /// Beyond the capacity of its pool.
    pub too_many: u64,
}

/// The result for all pages of a tablespace.
#[derive(Clone, Copy)]
enum Fate {
    To { space: u32, pages: Option<u64> },
    Own,
    FullText,
    Nameless,
    Missing,
}

/// Translates `snapshot` to a server that has the tablespaces `to` and whose pool holds `pages_max` pages.
pub fn translate(snapshot: &Snapshot, to: &Spaces, pages_max: u64) -> Translated {
    let mut fates: HashMap<u32, Fate> = HashMap::new();
    let mut translated = Translated::default();
    let left_out = &mut translated.left_out;
    for page in &snapshot.pages {
        let fate = *fates.entry(page.space).or_insert_with(|| fate(snapshot, to, page.space));
        match fate {
            Fate::Own => left_out.own += 1,
            Fate::FullText => left_out.full_text += 1,
            Fate::Nameless => left_out.nameless += 1,
            Fate::Missing => left_out.missing += 1,
            Fate::To { pages: Some(pages), .. } if u64::from(page.number) >= pages => {
                left_out.beyond_end += 1
            }
            Fate::To { .. } if translated.pages.len() as u64 >= pages_max => left_out.too_many += 1,
            Fate::To { space, .. } => translated.pages.push(Page { space, number: page.number }),
        }
    }
    translated
}

fn fate(snapshot: &Snapshot, to: &Spaces, space: u32) -> Fate {
    let Some(from) = snapshot.spaces.get(space) else {
        // Not every server lists the system tablespace.
        return if space == 0 { Fate::Own } else { Fate::Nameless };
    };
    match from.kind() {
        SpaceKind::Own => Fate::Own,
        SpaceKind::FullText => Fate::FullText,
        SpaceKind::Named => match to.same_as(from) {
            Some((space, same)) => Fate::To { space, pages: same.pages },
            None => Fate::Missing,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::spaces::Space;
    use super::*;

    fn spaces(list: &[(u32, &str, u64)]) -> Spaces {
        let mut spaces = Spaces::default();
        for (number, name, pages) in list {
            spaces.insert(*number, Space { name: (*name).to_owned(), pages: Some(*pages) });
        }
        spaces
    }

    fn pages(list: &[(u32, u32)]) -> Vec<Page> {
        list.iter().map(|(space, number)| Page { space: *space, number: *number }).collect()
    }

    fn snapshot(list: &[(u32, u32)]) -> Snapshot {
        let spaces = spaces(&[
            (0, "innodb_system", 100),
            (5, "shop/orders", 100),
            (6, "shop/FTS_0000000000000012_CONFIG", 100),
            (7, "shop/log#P#p0", 100),
            (8, "shop/gone", 100),
        ]);
        Snapshot { spaces, pages: pages(list), ..Snapshot::default() }
    }

    #[test]
    fn numbers_are_translated_by_name_and_the_order_is_kept() {
        // Number 5 is another table on the standby, as with a different history of DDL.
        let to = spaces(&[(5, "shop/log#P#p0", 100), (12, "shop/orders", 100), (6, "shop/other", 9)]);
        let translated = translate(&snapshot(&[(7, 3), (5, 9), (5, 1)]), &to, 10);
        assert_eq!(translated.pages, pages(&[(5, 3), (12, 9), (12, 1)]));
        assert_eq!(translated.left_out, LeftOut::default());
    }

    #[test]
    fn what_has_no_counterpart_is_counted_and_left_out() {
        let to = spaces(&[(12, "shop/orders", 10), (6, "shop/FTS_0000000000000012_CONFIG", 100)]);
        let dumped = snapshot(&[(0, 1), (6, 1), (99, 1), (8, 1), (5, 10), (5, 9)]);
        let translated = translate(&dumped, &to, 10);
        assert_eq!(translated.pages, pages(&[(12, 9)]));
        let one_each = LeftOut { own: 1, full_text: 1, nameless: 1, missing: 1, beyond_end: 1, too_many: 0 };
        assert_eq!(translated.left_out, one_each);
    }

    #[test]
    fn a_smaller_pool_gets_the_most_recently_used() {
        let to = spaces(&[(12, "shop/orders", 100)]);
        let translated = translate(&snapshot(&[(5, 3), (0, 1), (5, 1), (5, 2)]), &to, 2);
        assert_eq!(translated.pages, pages(&[(12, 3), (12, 1)]));
        assert_eq!((translated.left_out.own, translated.left_out.too_many), (1, 1));
    }

    #[test]
    fn the_system_tablespace_needs_no_name() {
        let mut snapshot = snapshot(&[(0, 1)]);
        snapshot.spaces = Spaces::default();
        assert_eq!(translate(&snapshot, &Spaces::default(), 1).left_out.own, 1);
    }
}
