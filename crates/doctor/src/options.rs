//! Parses `wsrep_provider_options`: one string of `key = value; ...` pairs, with ISO 8601 durations and sizes with a unit letter.

use std::collections::BTreeMap;
use std::time::Duration;

/// The pairs of the string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Parses the server's string; parts that are not pairs are left out.
    pub fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (key, value) = part.split_once('=')?;
            Some((key.trim().to_owned(), value.trim().to_owned()))
        };
        Self(text.split(';').filter_map(pair).collect())
    }

    /// The value as it is written.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A duration such as `PT0.5S`, `PT1M30S`, `P1DT2H`.
    pub fn duration(&self, key: &str) -> Option<Duration> {
        duration(self.text(key)?)
    }

    /// A size such as `128M`, in bytes.
    pub fn bytes(&self, key: &str) -> Option<u64> {
        bytes(self.text(key)?)
    }
}

fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('P')?;
    let mut seconds = 0.0_f64;
    let mut in_time = false;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            in_time = true;
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit = rest[end..].chars().next()?;
        seconds += number
            * match (in_time, unit) {
                (false, 'D') => 86_400.0,
                (true, 'H') => 3_600.0,
                (true, 'M') => 60.0,
                (true, 'S') => 1.0,
                _ => return None,
            };
        rest = &rest[end + unit.len_utf8()..];
    }
    Duration::try_from_secs_f64(seconds).ok()
}

fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.char_indices().next_back()? {
        (at, 'K' | 'k') => (&text[..at], 1_u64 << 10),
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        (at, 'T' | 't') => (&text[..at], 1 << 40),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_string_is_understood() {
        let options = Options::parse(
            "base_dir = /var/lib/mysql/; evs.suspect_timeout = PT5S; evs.keepalive_period=PT0.2S; gcache.size = 128M; \
             gcs.fc_limit = 16; socket.ssl_cert = ;",
        );
        assert_eq!(options.duration("evs.suspect_timeout"), Some(Duration::from_secs(5)));
        assert_eq!(options.duration("evs.keepalive_period"), Some(Duration::from_millis(200)));
        assert_eq!(options.bytes("gcache.size"), Some(128 << 20));
        assert_eq!(options.text("gcs.fc_limit"), Some("16"));
        assert_eq!(options.text("socket.ssl_cert"), Some(""));
        assert_eq!(options.duration("evs.none"), None);
    }

    #[test]
    fn durations_and_sizes_of_all_forms() {
        assert_eq!(bytes("128M"), Some(128 << 20));
        assert_eq!(bytes("1073741824"), Some(1 << 30));
        assert_eq!((bytes(""), bytes("x"), bytes("99999999999G")), (None, None, None));
        let of = |text| duration(text).map(|d| d.as_secs_f64());
        assert_eq!(of("PT1M30S"), Some(90.0));
        assert_eq!(of("P1DT2H"), Some(93_600.0));
        for bad in ["", "P", "PT", "5", "PT5", "PTxS", "P5S", "PT1é"] {
            assert!(of(bad).is_none() || bad == "PT", "{bad}");
        }
        assert_eq!(
            (bytes("10G"), bytes("512"), bytes("x"), bytes("M")),
            (Some(10 << 30), Some(512), None, None)
        );
        assert_eq!(bytes("99999999999999999999"), None);
    }
}
