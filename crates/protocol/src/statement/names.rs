//! Names that may stand before a parenthesis without anything being changed by it.
//!
//! The tables are sorted, in upper case, and searched by halves. What is missing makes a read look like a write, which costs
//! a retry; what is wrongly there could make a write be sent twice, so: nothing that takes a lock, waits, draws from a
//! sequence, evaluates a column's default, reads a file, or asks what an earlier statement left behind. Sources: MariaDB's
//! "Function and Operator Reference", MySQL's "Built-In Function and Operator Reference" and "Function Name Parsing and
//! Resolution".

/// Keywords and types. The grammars let no stored function be called by such a name without quotes.
#[rustfmt::skip]
const KEYWORDS: &[&[u8]] = &[
    b"AGAINST", b"ALL", b"AND", b"ANY", b"AS", b"BETWEEN", b"BIGINT", b"BINARY", b"BLOB", b"BY", b"CASE",
    b"COLUMNS", b"CROSS", b"DECIMAL", b"DISTINCT", b"DISTINCTROW", b"DIV", b"DOUBLE", b"ELSE", b"ESCAPE",
    b"EXCEPT", b"EXISTS", b"FLOAT", b"FROM", b"GROUP", b"HAVING", b"IN", b"INDEX", b"INNER", b"INT",
    b"INTEGER", b"INTERSECT", b"INTERVAL", b"IS", b"JOIN", b"KEY", b"LATERAL", b"LIKE", b"LIMIT",
    b"MEDIUMINT", b"MEMBER", b"NESTED", b"NOT", b"NUMERIC", b"OF", b"OFFSET", b"ON", b"OR", b"ORDER",
    b"OVER", b"PARTITION", b"REAL", b"REGEXP", b"RLIKE", b"ROW", b"SELECT", b"SMALLINT", b"SOME",
    b"STRAIGHT_JOIN", b"THEN", b"TINYINT", b"UNION", b"USING", b"VALUE", b"VALUES", b"VARBINARY",
    b"VARCHAR", b"WHEN", b"WHERE", b"WITHIN", b"XOR",
];

/// Functions that a server finds by this name before it looks for a stored one, whether or not a space comes between.
#[rustfmt::skip]
const NATIVE: &[&[u8]] = &[
    b"ABS", b"ACOS", b"ADDTIME", b"AES_DECRYPT", b"AES_ENCRYPT", b"ASCII", b"ASIN", b"ATAN", b"ATAN2",
    b"AVG", b"BIN", b"BIT_COUNT", b"BIT_LENGTH", b"CEIL", b"CEILING", b"CHAR", b"CHARACTER_LENGTH",
    b"CHARSET", b"CHAR_LENGTH", b"COALESCE", b"COERCIBILITY", b"COLLATION", b"COMPRESS", b"CONCAT",
    b"CONCAT_WS", b"CONNECTION_ID", b"CONV", b"CONVERT", b"CONVERT_TZ", b"COS", b"COT", b"CRC32",
    b"CURRENT_DATE", b"CURRENT_TIME", b"CURRENT_TIMESTAMP", b"CURRENT_USER", b"DATABASE", b"DATE",
    b"DATEDIFF", b"DATE_FORMAT", b"DAY", b"DAYNAME", b"DAYOFMONTH", b"DAYOFWEEK", b"DAYOFYEAR",
    b"DEGREES", b"ELT", b"EXP", b"EXPORT_SET", b"EXTRACTVALUE", b"FIELD", b"FIND_IN_SET", b"FLOOR",
    b"FORMAT", b"FROM_BASE64", b"FROM_DAYS", b"FROM_UNIXTIME", b"GREATEST", b"HEX", b"HOUR", b"IF",
    b"IFNULL", b"INET6_ATON", b"INET6_NTOA", b"INET_ATON", b"INET_NTOA", b"INSERT", b"INSTR", b"ISNULL",
    b"IS_FREE_LOCK", b"IS_IPV4", b"IS_IPV4_COMPAT", b"IS_IPV4_MAPPED", b"IS_IPV6", b"IS_USED_LOCK",
    b"JSON_ARRAY", b"JSON_ARRAY_APPEND", b"JSON_ARRAY_INSERT", b"JSON_CONTAINS", b"JSON_CONTAINS_PATH",
    b"JSON_DEPTH", b"JSON_EXTRACT", b"JSON_INSERT", b"JSON_KEYS", b"JSON_LENGTH", b"JSON_MERGE",
    b"JSON_MERGE_PATCH", b"JSON_MERGE_PRESERVE", b"JSON_OBJECT", b"JSON_QUOTE", b"JSON_REMOVE",
    b"JSON_REPLACE", b"JSON_SEARCH", b"JSON_SET", b"JSON_TYPE", b"JSON_UNQUOTE", b"JSON_VALID",
    b"LAST_DAY", b"LCASE", b"LEAST", b"LEFT", b"LENGTH", b"LN", b"LOCALTIME", b"LOCALTIMESTAMP",
    b"LOCATE", b"LOG", b"LOG10", b"LOG2", b"LOWER", b"LPAD", b"LTRIM", b"MAKEDATE", b"MAKETIME",
    b"MAKE_SET", b"MATCH", b"MD5", b"MICROSECOND", b"MINUTE", b"MOD", b"MONTH", b"MONTHNAME",
    b"NAME_CONST", b"NULLIF", b"OCT", b"OCTET_LENGTH", b"ORD", b"PASSWORD", b"PERIOD_ADD",
    b"PERIOD_DIFF", b"PI", b"POW", b"POWER", b"QUARTER", b"QUOTE", b"RADIANS", b"RAND", b"REGEXP_INSTR",
    b"REGEXP_REPLACE", b"REGEXP_SUBSTR", b"REPEAT", b"REPLACE", b"REVERSE", b"RIGHT", b"ROUND", b"RPAD",
    b"RTRIM", b"SCHEMA", b"SECOND", b"SEC_TO_TIME", b"SHA", b"SHA1", b"SHA2", b"SIGN", b"SIN",
    b"SOUNDEX", b"SPACE", b"SQRT", b"STRCMP", b"STR_TO_DATE", b"SUBSTRING_INDEX", b"SUBTIME", b"TAN",
    b"TIME", b"TIMEDIFF", b"TIMESTAMP", b"TIMESTAMPADD", b"TIMESTAMPDIFF", b"TIME_FORMAT",
    b"TIME_TO_SEC", b"TO_BASE64", b"TO_DAYS", b"TO_SECONDS", b"TRUNCATE", b"UCASE", b"UNCOMPRESS",
    b"UNCOMPRESSED_LENGTH", b"UNHEX", b"UNIX_TIMESTAMP", b"UPDATEXML", b"UPPER", b"USER", b"UTC_DATE",
    b"UTC_TIME", b"UTC_TIMESTAMP", b"UUID", b"UUID_SHORT", b"VERSION", b"WEEK", b"WEEKDAY",
    b"WEEKOFYEAR", b"WEIGHT_STRING", b"YEAR", b"YEARWEEK",
];

/// Functions that are calls of the server's own only without a space before the parenthesis (with one, the name is an
/// ordinary one, perhaps a stored function's), and those whose rule we do not know.
#[rustfmt::skip]
const PARSED: &[&[u8]] = &[
    b"ADDDATE", b"ADD_MONTHS", b"ANY_VALUE", b"BIN_TO_UUID", b"BIT_AND", b"BIT_OR", b"BIT_XOR",
    b"CAN_ACCESS_COLUMN", b"CAN_ACCESS_DATABASE", b"CAN_ACCESS_TABLE", b"CAST", b"CHR", b"COLUMN_ADD",
    b"COLUMN_CHECK", b"COLUMN_CREATE", b"COLUMN_DELETE", b"COLUMN_EXISTS", b"COLUMN_GET", b"COLUMN_JSON",
    b"COLUMN_LIST", b"COUNT", b"CRC32C", b"CUME_DIST", b"CURDATE", b"CURRENT_ROLE", b"CURTIME",
    b"DATE_ADD", b"DATE_SUB", b"DECODE_ORACLE", b"DENSE_RANK", b"DES_DECRYPT", b"DES_ENCRYPT",
    b"ENCRYPT", b"EXTRACT", b"FIRST_VALUE", b"FORMAT_BYTES", b"FORMAT_PICO_TIME", b"FROM_VECTOR",
    b"GEOMCOLLECTION", b"GEOMCOLLFROMTEXT", b"GEOMCOLLFROMWKB", b"GEOMETRYCOLLECTION",
    b"GEOMETRYCOLLECTIONFROMTEXT", b"GEOMETRYCOLLECTIONFROMWKB", b"GEOMETRYFROMTEXT", b"GEOMETRYFROMWKB",
    b"GEOMFROMTEXT", b"GEOMFROMWKB", b"GET_FORMAT", b"GROUPING", b"GROUP_CONCAT", b"GTID_SUBSET",
    b"GTID_SUBTRACT", b"ICU_VERSION", b"IS_UUID", b"JSON_ARRAYAGG", b"JSON_ARRAY_INTERSECT",
    b"JSON_COMPACT", b"JSON_DETAILED", b"JSON_EQUALS", b"JSON_EXISTS", b"JSON_KEY_VALUE", b"JSON_LOOSE",
    b"JSON_NORMALIZE", b"JSON_OBJECTAGG", b"JSON_OBJECT_FILTER_KEYS", b"JSON_OBJECT_TO_ARRAY",
    b"JSON_OVERLAPS", b"JSON_PRETTY", b"JSON_QUERY", b"JSON_SCHEMA_VALID",
    b"JSON_SCHEMA_VALIDATION_REPORT", b"JSON_STORAGE_FREE", b"JSON_STORAGE_SIZE", b"JSON_TABLE",
    b"JSON_UNESCAPE", b"JSON_VALUE", b"KDF", b"LAG", b"LAST_VALUE", b"LEAD", b"LENGTHB", b"LINEFROMTEXT",
    b"LINEFROMWKB", b"LINESTRING", b"LINESTRINGFROMTEXT", b"LINESTRINGFROMWKB", b"LPAD_ORACLE",
    b"LTRIM_ORACLE", b"MAX", b"MBRCONTAINS", b"MBRCOVEREDBY", b"MBRCOVERS", b"MBRDISJOINT", b"MBREQUAL",
    b"MBREQUALS", b"MBRINTERSECTS", b"MBROVERLAPS", b"MBRTOUCHES", b"MBRWITHIN", b"MEDIAN", b"MID",
    b"MIN", b"MLINEFROMTEXT", b"MLINEFROMWKB", b"MONTHS_BETWEEN", b"MPOINTFROMTEXT", b"MPOINTFROMWKB",
    b"MPOLYFROMTEXT", b"MPOLYFROMWKB", b"MULTILINESTRING", b"MULTILINESTRINGFROMTEXT",
    b"MULTILINESTRINGFROMWKB", b"MULTIPOINT", b"MULTIPOINTFROMTEXT", b"MULTIPOINTFROMWKB",
    b"MULTIPOLYGON", b"MULTIPOLYGONFROMTEXT", b"MULTIPOLYGONFROMWKB", b"NATURAL_SORT_KEY", b"NOW",
    b"NTH_VALUE", b"NTILE", b"NVL", b"NVL2", b"OLD_PASSWORD", b"PERCENTILE_CONT", b"PERCENTILE_DISC",
    b"PERCENT_RANK", b"POINT", b"POINTFROMTEXT", b"POINTFROMWKB", b"POLYFROMTEXT", b"POLYFROMWKB",
    b"POLYGON", b"POLYGONFROMTEXT", b"POLYGONFROMWKB", b"POSITION", b"PS_CURRENT_THREAD_ID",
    b"PS_THREAD_ID", b"RANDOM_BYTES", b"RANK", b"REGEXP_LIKE", b"REPLACE_ORACLE", b"ROLES_GRAPHML",
    b"ROW_NUMBER", b"RPAD_ORACLE", b"RTRIM_ORACLE", b"SESSION_USER", b"SFORMAT", b"STATEMENT_DIGEST",
    b"STATEMENT_DIGEST_TEXT", b"STD", b"STDDEV", b"STDDEV_POP", b"STDDEV_SAMP", b"STRING_TO_VECTOR",
    b"ST_AREA", b"ST_ASBINARY", b"ST_ASGEOJSON", b"ST_ASTEXT", b"ST_ASWKB", b"ST_ASWKT", b"ST_BOUNDARY",
    b"ST_BUFFER", b"ST_BUFFER_STRATEGY", b"ST_CENTROID", b"ST_COLLECT", b"ST_CONTAINS", b"ST_CONVEXHULL",
    b"ST_CROSSES", b"ST_DIFFERENCE", b"ST_DIMENSION", b"ST_DISJOINT", b"ST_DISTANCE",
    b"ST_DISTANCE_SPHERE", b"ST_ENDPOINT", b"ST_ENVELOPE", b"ST_EQUALS", b"ST_EXTERIORRING",
    b"ST_FRECHETDISTANCE", b"ST_GEOHASH", b"ST_GEOMCOLLFROMTEXT", b"ST_GEOMCOLLFROMWKB",
    b"ST_GEOMETRYCOLLECTIONFROMTEXT", b"ST_GEOMETRYCOLLECTIONFROMWKB", b"ST_GEOMETRYFROMTEXT",
    b"ST_GEOMETRYFROMWKB", b"ST_GEOMETRYN", b"ST_GEOMETRYTYPE", b"ST_GEOMFROMGEOJSON",
    b"ST_GEOMFROMTEXT", b"ST_GEOMFROMWKB", b"ST_HAUSDORFFDISTANCE", b"ST_INTERIORRINGN",
    b"ST_INTERSECTION", b"ST_INTERSECTS", b"ST_ISCLOSED", b"ST_ISEMPTY", b"ST_ISRING", b"ST_ISSIMPLE",
    b"ST_ISVALID", b"ST_LATFROMGEOHASH", b"ST_LATITUDE", b"ST_LENGTH", b"ST_LINEFROMTEXT",
    b"ST_LINEFROMWKB", b"ST_LINEINTERPOLATEPOINT", b"ST_LINEINTERPOLATEPOINTS", b"ST_LINESTRINGFROMTEXT",
    b"ST_LINESTRINGFROMWKB", b"ST_LONGFROMGEOHASH", b"ST_LONGITUDE", b"ST_MAKEENVELOPE",
    b"ST_MLINEFROMTEXT", b"ST_MLINEFROMWKB", b"ST_MPOINTFROMTEXT", b"ST_MPOINTFROMWKB",
    b"ST_MPOLYFROMTEXT", b"ST_MPOLYFROMWKB", b"ST_NUMGEOMETRIES", b"ST_NUMINTERIORRING",
    b"ST_NUMINTERIORRINGS", b"ST_NUMPOINTS", b"ST_OVERLAPS", b"ST_POINTATDISTANCE",
    b"ST_POINTFROMGEOHASH", b"ST_POINTFROMTEXT", b"ST_POINTFROMWKB", b"ST_POINTN", b"ST_POINTONSURFACE",
    b"ST_POLYFROMTEXT", b"ST_POLYFROMWKB", b"ST_POLYGONFROMTEXT", b"ST_POLYGONFROMWKB", b"ST_RELATE",
    b"ST_SIMPLIFY", b"ST_SRID", b"ST_STARTPOINT", b"ST_SWAPXY", b"ST_SYMDIFFERENCE", b"ST_TOUCHES",
    b"ST_TRANSFORM", b"ST_UNION", b"ST_VALIDATE", b"ST_WITHIN", b"ST_X", b"ST_Y", b"SUBDATE", b"SUBSTR",
    b"SUBSTRB", b"SUBSTRING", b"SUBSTR_ORACLE", b"SUM", b"SYSDATE", b"SYSTEM_USER", b"SYS_GUID",
    b"TO_CHAR", b"TO_DATE", b"TO_NUMBER", b"TO_VECTOR", b"TRIM", b"TRIM_ORACLE", b"TRUNC",
    b"UUID_TIMESTAMP", b"UUID_TO_BIN", b"UUID_TO_TIMESTAMP", b"UUID_V4", b"UUID_V7", b"VARIANCE",
    b"VAR_POP", b"VAR_SAMP", b"VECTOR_DIM", b"VECTOR_TO_STRING", b"VEC_DISTANCE", b"VEC_DISTANCE_COSINE",
    b"VEC_DISTANCE_EUCLIDEAN", b"VEC_FROMTEXT", b"VEC_TOTEXT", b"XMLISVALID",
];

fn has(table: &[&[u8]], name: &[u8]) -> bool {
    table.binary_search(&name).is_ok()
}

/// Where the names of a table with each first letter begin, and where they end: a word is looked for among those alone.
const fn by_letter(table: &[&[u8]]) -> [u16; 27] {
    let mut begins = [table.len() as u16; 27];
    let mut at = table.len();
    while at > 0 {
        at -= 1;
        let mut letter = (table[at][0] - b'A') as usize + 1;
        while letter > 0 {
            letter -= 1;
            begins[letter] = at as u16;
        }
    }
    begins
}

fn has_lettered(table: &[&[u8]], begins: &[u16; 27], name: &[u8]) -> bool {
    let letter = usize::from(name.first().map_or(u8::MAX, |letter| letter.wrapping_sub(b'A')));
    match begins.get(letter..).and_then(|begins| begins.first_chunk::<2>()) {
        Some([begin, end]) => {
            table.get(usize::from(*begin)..usize::from(*end)).is_some_and(|names| has(names, name))
        }
        None => false,
    }
}

static KEYWORDS_BEGIN: [u16; 27] = by_letter(KEYWORDS);
static NATIVE_BEGIN: [u16; 27] = by_letter(NATIVE);
static PARSED_BEGIN: [u16; 27] = by_letter(PARSED);

/// Whether a word is a keyword that may stand before a parenthesis without being a call. `name` is in upper case.
pub(super) fn is_keyword(name: &[u8]) -> bool {
    has_lettered(KEYWORDS, &KEYWORDS_BEGIN, name)
}

/// Whether `name (` or (without `has_gap`) `name(` changes nothing. `name` is in upper case and stands unquoted and
/// unqualified.
pub(super) fn is_harmless_before_parenthesis(name: &[u8], has_gap: bool) -> bool {
    is_keyword(name)
        || has_lettered(NATIVE, &NATIVE_BEGIN, name)
        || (!has_gap && has_lettered(PARSED, &PARSED_BEGIN, name))
}

/// Functions that must not be run again for nothing (they wait, take or release a lock of the session, or tell what an earlier statement left),
/// but change no data.
#[rustfmt::skip]
const WAITING: &[&[u8]] = &[
    b"BENCHMARK", b"CURRVAL", b"FOUND_ROWS", b"GET_LOCK", b"LASTVAL", b"LAST_INSERT_ID", b"MASTER_GTID_WAIT", b"MASTER_POS_WAIT",
    b"RELEASE_ALL_LOCKS", b"RELEASE_LOCK", b"ROW_COUNT", b"SLEEP", b"WSREP_LAST_SEEN_GTID", b"WSREP_LAST_WRITTEN_GTID",
    b"WSREP_SYNC_WAIT_UPTO_GTID",
];

/// Whether a function that is not harmless changes no data all the same.
pub(super) fn changes_no_data(name: &[u8]) -> bool {
    has(WAITING, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_apart() {
        for table in [KEYWORDS, NATIVE, PARSED] {
            assert!(table.is_sorted_by(|a, b| a < b));
            assert!(table.iter().all(|name| has_lettered(table, &by_letter(table), name)));
            assert!(table.iter().all(|name| name.len() <= super::super::word::WORD_MAX && name.is_ascii()));
            assert!(table.iter().all(|name| !name.iter().any(u8::is_ascii_lowercase)));
        }
        assert!(NATIVE.iter().all(|name| !has(PARSED, name) && !has(KEYWORDS, name)));
    }

    #[test]
    fn what_does_something_is_in_no_table() {
        for name in [
            "BENCHMARK",
            "DEFAULT",
            "GET_LOCK",
            "LOAD_FILE",
            "MASTER_GTID_WAIT",
            "MASTER_POS_WAIT",
            "NEXTVAL",
            "RELEASE_ALL_LOCKS",
            "RELEASE_LOCK",
            "SETVAL",
            "SLEEP",
            "SOURCE_POS_WAIT",
            "WAIT_FOR_EXECUTED_GTID_SET",
            "WSREP_SYNC_WAIT_UPTO_GTID",
            "LAST_INSERT_ID",
            "FOUND_ROWS",
            "ROW_COUNT",
        ] {
            assert!(!is_harmless_before_parenthesis(name.as_bytes(), false), "{name}");
        }
    }
}
