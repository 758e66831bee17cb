//! The paths of orders about a node.

use std::fmt::Write;

/// The path of an order about a node. What cannot be a node's name is written so that it stays one piece of the path.
pub fn node_path(node: &str, order: &str) -> String {
    format!("node/{}/{order}", escaped(node))
}

/// A name as it may stand in a URL.
pub fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_name_stays_one_piece() {
        assert_eq!(node_path("db1", "drain"), "node/db1/drain");
        assert_eq!(node_path("a/../b c?", "drain"), "node/a%2F..%2Fb%20c%3F/drain");
    }
}
