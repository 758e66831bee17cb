//! A password. Its clones share it, and the keys of `parsec` that were derived from it, which take a millisecond each. It is overwritten when the last
//! clone is dropped, and Debug does not show it.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use zeroize::Zeroizing;

use super::parsec::{Derivation, Key};

/// Keys remembered at once: each node has one for an account, and each change of the password makes new ones.
const KEYS_MAX: usize = 64;

/// See the head of this file.
#[derive(Clone)]
pub struct Password(Arc<Shared>);

struct Shared {
    text: Zeroizing<String>,
    keys: Mutex<Vec<Arc<Key>>>,
}

impl Password {
    /// What an account of `parsec` signs with. Takes a millisecond and more the first time.
    pub fn key(&self, derivation: Derivation) -> Arc<Key> {
        let keys = || self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = keys().iter().find(|key| key.derivation() == derivation) {
            return key.clone();
        }
        let key = Arc::new(Key::derive(self.as_bytes(), derivation));
        let mut keys = keys();
        if keys.len() >= KEYS_MAX {
            keys.clear();
        }
        keys.push(key.clone());
        key
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(Arc::new(Shared { text: text.into(), keys: Mutex::default() }))
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Deref for Password {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_keys_and_none_shows_it() {
        let password = Password::from("hunter2");
        let derivation = |n| Derivation::of_nobody([n, 0, 0]);
        let first = password.key(derivation(0));
        assert!(Arc::ptr_eq(&first, &password.clone().key(derivation(0))));
        assert!(!Arc::ptr_eq(&first, &password.key(derivation(1))));
        assert_ne!(first, Password::from("Hunter2").key(derivation(0)));
        assert_eq!((password.clone(), &*password), (Password::from("hunter2"), "hunter2"));
        assert!(!format!("{password:?} {first:?}").contains("hunter2"));
        for n in 2..100 {
            password.key(derivation(n));
        }
        assert!(password.0.keys.lock().unwrap().len() <= KEYS_MAX);
    }
}
