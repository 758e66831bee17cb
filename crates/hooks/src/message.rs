//! What a hook is told: an entry of the journal, the cluster's name, the machine's, and an id that is the same each time that this entry is told.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use topology::view::Decision;

/// Of the digest that is the id.
const ID_BYTES: usize = 8;

/// A message, ready to be sent.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    pub kind: &'static str,
    /// One line of JSON.
    pub body: String,
}

impl Message {
    /// About this entry; `None` when it has no kind.
    pub fn of(cluster: &str, entry: &Decision) -> Option<Self> {
        if entry.about.is_other() {
            return None;
        }
        let mut body = json!(entry);
        let digest = digest(&SHA256, format!("{cluster} {} {}", entry.at_unix_ms, entry.text).as_bytes());
        let id = hex::encode(digest.as_ref().get(..ID_BYTES).unwrap_or_default());
        body["cluster"] = Value::from(cluster);
        body["id"] = Value::from(id.as_str());
        body["host"] = Value::from(host());
        Some(Self { id, kind: entry.about.kind(), body: body.to_string() })
    }
}

/// The machine that tells; several may watch one cluster. Empty where it has no name.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use topology::about::About;
    use topology::view::Level;

    use super::*;

    #[test]
    fn an_entry_has_one_id_and_others_have_others() {
        let about = About::Writes { node: "db2".into() };
        let entry = Decision { at_unix_ms: 7, level: Level::Info, text: "db2 writes".into(), term: 3, about };
        let message = Message::of("shop", &entry).unwrap();
        let body: Value = serde_json::from_str(&message.body).unwrap();
        assert_eq!(body["about"], json!({ "kind": "writes", "node": "db2" }));
        assert_eq!(message.kind, "writes");
        let kinds: Vec<&str> = About::kinds().collect();
        assert_eq!(kinds, ["node", "chosen", "lost", "writes", "undone", "nobody_writes", "clients"]);
        assert_eq!(
            (&body["cluster"], &body["term"], &body["id"]),
            (&"shop".into(), &3.into(), &message.id.clone().into())
        );
        assert!(!message.body.contains('\n') && message.id.len() == 16);
        assert_eq!(Message::of("shop", &entry).unwrap().id, message.id);
        assert_ne!(Message::of("other", &entry).unwrap().id, message.id);
        let later = Decision { at_unix_ms: 8, ..entry.clone() };
        assert_ne!(Message::of("shop", &later).unwrap().id, message.id);
        assert!(Message::of("shop", &Decision { about: About::Other, ..entry }).is_none());
    }
}
