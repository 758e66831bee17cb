//! Names in a statement that mean more than its text shows: what they are looked up in, and when.
//!
//! Enters: a text, and the lists that were read from the database. Leaves: whether it may write although it looks like a read, and whether
//! it may write what no server rolls back. Only names that stand in the text can be looked up; what calls code that the text does not show
//! is a write anyway.

use std::sync::Arc;

use protocol::statement::names_any;
use topology::catalogue::Catalogue;

/// Which names are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Of what is not rolled back for certain: [`Catalogue::untransactional`].
    Untransactional,
    /// Of what may write when it is read: [`Catalogue::writing_reads`].
    WritingReads,
    /// Of all views: [`Catalogue::views`].
    Views,
}

/// The present lists, asked for when a statement needs one.
pub type Lists<'a> = &'a dyn Fn(List) -> Names;

/// What is known of one list.
#[derive(Clone, Debug)]
pub enum Names {
    /// It has not been read: any name may be on it.
    Unknown,
    /// Nothing is on it.
    Nothing,
    /// These are.
    Of(Arc<Catalogue>, List),
}

impl Names {
    /// One list of what has been read. Of a list with nothing on it no more is taken along than that.
    pub fn of(catalogue: Option<&Arc<Catalogue>>, list: List) -> Self {
        let Some(catalogue) = catalogue else { return Self::Unknown };
        let is_empty = match list {
            List::Untransactional => catalogue.untransactional.is_empty(),
            List::WritingReads => catalogue.writing_reads.is_empty(),
            List::Views => catalogue.views.is_empty(),
        };
        if is_empty { Self::Nothing } else { Self::Of(Arc::clone(catalogue), list) }
    }

    /// A write may change what is not rolled back.
    pub(crate) fn any_in(&self, text: &[u8], status: u16) -> bool {
        match self {
            Self::Unknown => true,
            Self::Nothing => false,
            Self::Of(catalogue, list) => {
                let names = match list {
                    List::Untransactional => &catalogue.untransactional,
                    List::WritingReads => &catalogue.writing_reads,
                    List::Views => &catalogue.views,
                };
                names_any(text, status, |name| names.contains(name))
            }
        }
    }

    /// What looks like a read may write. While the list is unknown that is so of whatever may name a table, in which `FROM` or `TABLE`
    /// stands.
    pub(crate) fn any_read_in(&self, text: &[u8], status: u16) -> bool {
        match self {
            Self::Unknown => names_any(text, status, |name| matches!(name, "from" | "table")),
            known => known.any_in(text, status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: List) -> Names {
        let catalogue = Catalogue::new(["Log".to_owned()], ["Audit".to_owned()]);
        Names::of(Some(&Arc::new(catalogue)), list)
    }

    #[test]
    fn each_list_has_its_own_names() {
        for (list, text, known) in [
            (List::Untransactional, "INSERT INTO log VALUES (1)", true),
            (List::Untransactional, "SELECT * FROM audit", false),
            (List::WritingReads, "SELECT * FROM shop.`AUDIT`", true),
            (List::WritingReads, "SELECT * FROM log", false),
        ] {
            assert_eq!(names(list).any_in(text.as_bytes(), 0), known, "{list:?} {text}");
        }
        let empty = Names::of(Some(&Arc::default()), List::WritingReads);
        assert!(matches!(empty, Names::Nothing));
        assert!(!empty.any_read_in(b"SELECT * FROM audit", 0));
    }

    #[test]
    fn while_nothing_is_known_a_read_without_a_table_is_a_read() {
        let unknown = Names::of(None, List::WritingReads);
        for (text, known) in [
            ("SELECT 1", false),
            ("SELECT @@version, NOW()", false),
            ("SET NAMES utf8mb4", false),
            ("SELECT 'from t'", false),
            ("SELECT a FROM t", true),
            ("TABLE v", true),
            ("SET @a = (SELECT a FROM v)", true),
            ("SELECT 1 /*! FROM v */", true),
        ] {
            assert_eq!(unknown.any_read_in(text.as_bytes(), 0), known, "{text}");
        }
        assert!(unknown.any_in(b"INSERT INTO t VALUES (1)", 0));
    }
}
