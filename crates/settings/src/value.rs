//! A setting's value: as the file has it, and as those who use it read it.
//!
//! A value has passed the check of its row when it comes here; nothing is refused any more.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use topology::kind::Kind;
use topology::replication::Manager;
use topology::settings::{BootstrapPolicy, EvictPolicy, SilencePolicy, Writers};

/// Values of a kind that passed their check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Names, texts, words, addresses, paths.
    Text(String),
    /// Numbers of all units.
    Number(u64),
    /// Addresses, and other lists.
    List(Vec<String>),
    /// Yes or no.
    Switch(bool),
}

/// What a value can be read as. `base`: the directory from which relative paths are taken.
pub trait Read {
    fn read(value: Option<&Value>, base: &Path) -> Self;
}

impl Read for String {
    fn read(value: Option<&Value>, _: &Path) -> Self {
        text(value).to_owned()
    }
}

impl Read for PathBuf {
    fn read(value: Option<&Value>, base: &Path) -> Self {
        base.join(text(value))
    }
}

impl Read for Vec<String> {
    fn read(value: Option<&Value>, _: &Path) -> Self {
        match value {
            Some(Value::List(list)) => list.clone(),
            _ => Vec::new(),
        }
    }
}

impl Read for Vec<IpNet> {
    fn read(value: Option<&Value>, base: &Path) -> Self {
        Vec::<String>::read(value, base).iter().filter_map(|text| network(text)).collect()
    }
}

/// An IP address, or a subnet as `10.1.0.0/16`.
pub fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| Some(IpNet::from(text.parse::<IpAddr>().ok()?.to_canonical())))
}

impl Read for bool {
    fn read(value: Option<&Value>, _: &Path) -> Self {
        value == Some(&Value::Switch(true))
    }
}

impl Read for Duration {
    fn read(value: Option<&Value>, _: &Path) -> Self {
        Duration::from_millis(number(value))
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: Option<&Value>, base: &Path) -> Self {
        value.map(|value| T::read(Some(value), base))
    }
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Read for $type {
            fn read(value: Option<&Value>, _: &Path) -> Self {
                <$type>::try_from(number(value)).unwrap_or(<$type>::MAX)
            }
        }
    )*};
}

numbers!(u8 u16 u32 usize);

/// A value that is one of some words.
pub trait Words {
    const WORDS: &'static [&'static str];
}

/// Each word of a setting, and what it is to its readers.
macro_rules! words {
    ($($type:ident { $first:literal => $default:ident, $($word:literal => $value:ident),+ })*) => {$(
        impl Words for $type {
            const WORDS: &'static [&'static str] = &[$first, $($word),+];
        }

        impl Read for $type {
            fn read(value: Option<&Value>, _: &Path) -> Self {
                match text(value) {
                    $($word => Self::$value,)+
                    _ => Self::$default,
                }
            }
        }
    )*};
}

words! {
    Kind { "galera" => Galera, "replication" => Replication }
    Writers { "one" => One, "all" => All }
    Manager { "understudy" => Understudy, "external" => External }
    BootstrapPolicy { "never" => Never, "proven" => Proven }
    EvictPolicy { "proven" => Proven, "silent" => Silent, "never" => Never }
    SilencePolicy { "hurry" => Hurry, "wait" => Wait }
}

fn text(value: Option<&Value>) -> &str {
    match value {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

fn number(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Number(number)) => *number,
        _ => 0,
    }
}
