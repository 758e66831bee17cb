//! Replication filters: what a replica leaves out of what its source wrote. Its position passes over that all the same, so nothing else shows
//! that rows are missing.

/// The columns of a channel's status that name filters. MySQL has those without domains.
const COLUMNS: [&str; 10] = [
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
    IGNORED_SERVERS,
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
];

/// IGNORE_SERVER_IDS of CHANGE MASTER.
const IGNORED_SERVERS: &str = "Replicate_Ignore_Server_Ids";

/// The filters of a channel, each with its value; `value` gives the value of a column.
pub(super) fn read<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Vec<String> {
    let filters = COLUMNS.iter().filter_map(|name| Some((name, value(name)?.trim())));
    filters.filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name} = {value}")).collect()
}

/// Whether that filter leaves out only what the server with this id wrote itself, which every replica leaves out.
pub(super) fn is_of_its_own(filter: &str, server_id: u32) -> bool {
    filter == format!("{IGNORED_SERVERS} = {server_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_is_named_with_its_value() {
        for name in COLUMNS {
            let found = read(|asked| (asked == name).then_some("7"));
            assert_eq!(found, [format!("{name} = 7")]);
            assert!(read(|asked| (asked == name).then_some(" ")).is_empty());
        }
        assert!(read(|_| None).is_empty());
    }

    #[test]
    fn only_its_own_id_leaves_nothing_out() {
        let of = |ids: &str| read(|name| (name == IGNORED_SERVERS).then_some(ids)).remove(0);
        assert!(is_of_its_own(&of("3"), 3));
        assert!(
            !is_of_its_own(&of("1"), 3) && !is_of_its_own(&of("3, 1"), 3) && !is_of_its_own(&of("33"), 3)
        );
        let domain = read(|name| (name == "Replicate_Ignore_Domain_Ids").then_some("3")).remove(0);
        assert!(!is_of_its_own(&domain, 3));
    }
}
