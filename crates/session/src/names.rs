//! Names that change what a statement may do without showing in its text, and the lists in which they are looked up.
//!
//! Enters: a text, and the lists that were read from the database. Leaves: whether it may write although it looks like a read, and whether
//! it may write to a table that cannot be rolled back. Only names in the text can be looked up; a statement that calls code counts as a
//! write in any case.

use std::sync::Arc;

use protocol::statement::names_any;
use topology::catalogue::Catalogue;

/// The lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Names of what may not be rolled back: [`Catalogue::untransactional`].
    Untransactional,
    /// Names that may write when they are read: [`Catalogue::writing_reads`].
    WritingReads,
    /// The names of all views: [`Catalogue::views`].
    Views,
}

/// Returns the present lists; called when a statement needs one.
pub type Lists<'a> = &'a dyn Fn(List) -> Names;

/// The content of one list.
#[derive(Clone, Debug)]
pub enum Names {
    /// It was not read yet: any name may be in it.
    Unknown,
    /// It is empty.
    Nothing,
    /// It has names.
    Of(Arc<Catalogue>, List),
}

impl Names {
    /// One list of the catalogue; an empty one does not keep the catalogue alive.
    pub fn of(catalogue: Option<&Arc<Catalogue>>, list: List) -> Self {
        let Some(catalogue) = catalogue else { return Self::Unknown };
        let is_empty = match list {
            List::Untransactional => catalogue.untransactional.is_empty(),
            List::WritingReads => catalogue.writing_reads.is_empty(),
            List::Views => catalogue.views.is_empty(),
        };
        if is_empty { Self::Nothing } else { Self::Of(Arc::clone(catalogue), list) }
    }

    /// Whether the text contains a name of this list. True for all texts while the list is unknown.
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

    /// The same for a list of names whose reads may write. While it is unknown, true for a text that may name a table, which contains
    /// `FROM` or `TABLE`.
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
