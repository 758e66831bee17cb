//! The two evs timers that decide how long the group waits for a silent member, and the order in which they may be changed.
//!
//! ```text
//!               shorten: keepalive on every member, then suspect on every member
//!   Own ───────────────────────────────> Quick ───────────────────────────────> Pressed
//!    ^                                     │                                       │
//!    └─────────────────────────────────────┴───────────────────────────────────────┘
//!               lengthen: suspect on every member, then keepalive on every member
//! ```
//!
//! `evs.keepalive_period` is how often a member sends a message when it has nothing else to send, `evs.suspect_timeout` how long nothing must
//! have come from a member before it is suspected. Why the order, and why one option in a statement: each option is applied by itself, and
//! remains so when the next one of the same statement is refused (error 1210); and members whose suspect timeout is below the others' keepalive period suspect one another and
//! lose the Primary component. What Galera itself checks, found by trial on 26.4.23 and in agreement with its manual:
//!   - keepalive, suspect, inactive and join timers: at least PT0.1S, and nothing else;
//!   - `evs.install_timeout`: from twice the keepalive period to the inactive timeout, both inclusive, checked when it is set and
//!     not when those are;
//!   - a value that is in force already is taken without a check; `evs.inactive_check_period` is never taken at run time.
//!
//! Only these two are changed: with `evs.inactive_timeout` and `evs.install_timeout` shortened as well the times were the same (frozen and
//! vanished, 16 runs each way), and an install timeout that ends before every member has checked for silent ones (`evs.inactive_check_period`,
//! 0.5 s) could exclude a member that lives.
//!
//! Pure: texts in, texts out. Invariant, tested for many starting values: if every member's suspect timeout is at least three times every
//! member's keepalive period before, it is so after each single step.

use std::time::Duration;

use super::sql;

/// How often a member sends a message at the least.
pub const KEEPALIVE: &str = "evs.keepalive_period";
/// How long a member must be silent to be suspected.
pub const SUSPECT: &str = "evs.suspect_timeout";

/// A member whose own suspect timeout is shorter than this is left as it is.
pub const WORTH: Duration = Duration::from_secs(1);

/// How a member's timers are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The member's own values.
    Own,
    /// The advised values (docs/evs-and-doctor.md): a keepalive period of 0.2 s, and three missed ones make a suspect.
    Quick,
    /// The shortest values in the same proportion.
    Pressed,
}

impl Mode {
    fn longest(self, option: &str) -> Duration {
        let ms = match (self, option == KEEPALIVE) {
            (Self::Own, _) => return Duration::MAX,
            (Self::Quick, true) => 200,
            (Self::Quick, false) => 600,
            (Self::Pressed, true) => 100,
            (Self::Pressed, false) => 300,
        };
        Duration::from_millis(ms)
    }
}

/// What is set on every member first, and what on every member afterwards.
pub fn order(from: Mode, to: Mode) -> [&'static str; 2] {
    if to > from { [KEEPALIVE, SUSPECT] } else { [SUSPECT, KEEPALIVE] }
}

/// A member's own values, as it said them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    keepalive: String,
    suspect: String,
}

impl Own {
    /// Out of the provider's options; `None` when they are not there, or say what cannot be understood.
    pub fn read(options: &str) -> Option<Self> {
        let value = |name| sql::option(options, name).filter(|text| period(text).is_some());
        Some(Self { keepalive: value(KEEPALIVE)?.to_owned(), suspect: value(SUSPECT)?.to_owned() })
    }

    /// The same, with what is known of it from elsewhere in place of what the member says now.
    #[must_use]
    pub fn with(mut self, option: &str, value: &str) -> Self {
        match option {
            KEEPALIVE => value.clone_into(&mut self.keepalive),
            SUSPECT => value.clone_into(&mut self.suspect),
            _ => {}
        }
        self
    }

    /// Its own value of an option.
    pub fn value(&self, option: &str) -> &str {
        if option == KEEPALIVE { &self.keepalive } else { &self.suspect }
    }

    /// The group waits long enough for it to be worth a change.
    pub fn is_slow(&self) -> bool {
        period(&self.suspect).is_some_and(|suspect| suspect >= WORTH)
    }

    /// What an option is to be in a mode: never longer than its own.
    pub fn at(&self, mode: Mode, option: &str) -> String {
        let (own, longest) = (self.value(option), mode.longest(option));
        match period(own) {
            Some(length) if length > longest => text(longest),
            _ => own.to_owned(),
        }
    }
}

/// What a member says is in force is what was wanted; it may write the same length otherwise.
pub fn is_set(options: &str, option: &str, wanted: &str) -> bool {
    let says = sql::option(options, option).and_then(period);
    says.is_some() && says == period(wanted)
}

/// A length of time as Galera writes it: ISO 8601, `PT0.6S`, `P1DT2H`, `P` for none. Years and months have no length.
pub fn period(text: &str) -> Option<Duration> {
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (text.strip_prefix('P')?, ""),
    };
    let mut seconds = 0.0;
    for (part, units) in
        [(days, &[('D', 86400.0)][..]), (time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)][..])]
    {
        let mut rest = part;
        for (unit, length) in units {
            if let Some((number, after)) = rest.split_once(*unit) {
                let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                seconds += number.parse::<f64>().ok().filter(|_| plain)? * length;
                rest = after;
            }
        }
        if !rest.is_empty() {
            return None;
        }
    }
    // Galera counts nanoseconds; what it cannot write in six digits it rounds.
    Duration::try_from_secs_f64((seconds * 1e6).round() / 1e6).ok()
}

fn text(length: Duration) -> String {
    format!("PT{}S", length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn lengths_are_read_as_galera_writes_them() {
        let second = Duration::from_secs(1);
        for (text, length) in [
            ("PT5S", Some(5 * second)),
            ("PT0.6S", Some(600 * MS)),
            ("PT0.666667S", Some(Duration::from_micros(666_667))),
            ("PT1M0.5S", Some(60_500 * MS)),
            ("PT2H", Some(7200 * second)),
            ("P1D", Some(86400 * second)),
            ("P1DT1S", Some(86401 * second)),
            ("P", Some(Duration::ZERO)),
            ("P1Y", None),
            ("P1M", None),
            ("PT", None),
            ("PTS", None),
            ("PT-1S", None),
            ("PT1S2M", None),
            ("PTinfS", None),
            ("5", None),
            ("", None),
        ] {
            assert_eq!(period(text), length, "{text}");
        }
        assert_eq!(text(600 * MS), "PT0.6S");
        assert_eq!(text(100 * MS), "PT0.1S");
    }

    #[test]
    fn nothing_is_made_longer_than_its_own() {
        let own = Own::read("evs.keepalive_period = PT1S; evs.suspect_timeout = PT5S").unwrap();
        assert!(own.is_slow());
        let at = |mode| (own.at(mode, KEEPALIVE), own.at(mode, SUSPECT));
        assert_eq!(at(Mode::Own), ("PT1S".into(), "PT5S".into()));
        assert_eq!(at(Mode::Quick), ("PT0.2S".into(), "PT0.6S".into()));
        assert_eq!(at(Mode::Pressed), ("PT0.1S".into(), "PT0.3S".into()));
        let advised = Own::read("evs.keepalive_period = PT0.15S; evs.suspect_timeout = PT0.5S").unwrap();
        assert!(!advised.is_slow());
        assert_eq!(advised.at(Mode::Quick, KEEPALIVE), "PT0.15S");
        assert_eq!(advised.at(Mode::Quick, SUSPECT), "PT0.5S");
        assert_eq!(Own::read("evs.keepalive_period = PT1S"), None);
        assert_eq!(Own::read("evs.keepalive_period = P1Y; evs.suspect_timeout = PT5S"), None);
        assert!(is_set("evs.suspect_timeout = PT60S", SUSPECT, "PT1M"));
        assert!(!is_set("evs.suspect_timeout = PT5S", SUSPECT, "PT0.6S"));
        assert!(!is_set("", SUSPECT, "nonsense"));
    }

    /// A member of a model: what Galera checks when it takes a setting, as found by trial.
    #[derive(Clone, Debug)]
    struct Provider {
        keepalive: Duration,
        suspect: Duration,
        inactive: Duration,
        install: Duration,
    }

    impl Provider {
        fn set(&mut self, option: &str, value: &str) -> Result<(), u16> {
            let value = period(value).ok_or(1210u16)?;
            let field = if option == KEEPALIVE { &mut self.keepalive } else { &mut self.suspect };
            if value != *field && value < 100 * MS {
                return Err(1210);
            }
            *field = value;
            Ok(())
        }

        /// What it would refuse if its install timeout were set again: nothing here may lead into such a state.
        fn install_fits(&self) -> bool {
            (self.keepalive * 2..=self.inactive).contains(&self.install)
        }

        fn options(&self) -> String {
            let pair = |name: &str, length: Duration| format!("{name} = {}; ", text(length));
            pair(KEEPALIVE, self.keepalive) + &pair(SUSPECT, self.suspect)
        }
    }

    fn in_proportion(group: &[Provider]) -> bool {
        let longest = group.iter().map(|member| member.keepalive).max().unwrap_or_default();
        group.iter().all(|member| member.suspect >= longest * 3)
    }

    /// Moves a group from a mode to another, one setting on one member at a time, in both orders of the members; each state on the way is
    /// looked at.
    fn walk(group: &mut [Provider], owns: &[Own], from: Mode, to: Mode, seen: &mut impl FnMut(&[Provider])) {
        for option in order(from, to) {
            for place in 0..group.len() {
                let value = owns[place].at(to, option);
                let taken = group[place].set(option, &value);
                assert_eq!(taken, Ok(()), "{option}={value} on {:?}", group[place]);
                seen(group);
            }
        }
    }

    #[test]
    fn every_step_from_any_values_is_taken_and_keeps_the_proportion() {
        let lengths = [100, 150, 200, 333, 500, 1000, 2000, 5000, 30_000].map(|ms| ms * MS);
        let mut kinds = Vec::new();
        for keepalive in lengths {
            for suspect in lengths {
                let inactive = suspect * 3;
                let install = (inactive / 2).max(keepalive * 2);
                kinds.push(Provider { keepalive, suspect, inactive: inactive.max(install), install });
            }
        }
        let mut walked = 0;
        for one in &kinds {
            for other in &kinds {
                let before = vec![one.clone(), other.clone(), one.clone()];
                if !in_proportion(&before) {
                    continue;
                }
                walked += 1;
                let owns: Vec<Own> =
                    before.iter().map(|member| Own::read(&member.options()).unwrap()).collect();
                for turn in [Mode::Quick, Mode::Pressed] {
                    let mut group = before.clone();
                    let mut look = |group: &[Provider]| {
                        assert!(in_proportion(group), "{before:?} became {group:?}");
                        assert!(group.iter().all(Provider::install_fits), "{before:?} became {group:?}");
                    };
                    walk(&mut group, &owns, Mode::Own, Mode::Quick, &mut look);
                    if turn == Mode::Pressed {
                        walk(&mut group, &owns, Mode::Quick, Mode::Pressed, &mut look);
                    }
                    walk(&mut group, &owns, turn, Mode::Own, &mut look);
                    let after: Vec<_> = group.iter().map(Provider::options).collect();
                    assert_eq!(after, before.iter().map(Provider::options).collect::<Vec<_>>());
                }
            }
        }
        assert!(walked > 400, "{walked}");
    }

    #[test]
    fn the_other_order_would_break_the_proportion() {
        let member =
            Provider { keepalive: 1000 * MS, suspect: 5000 * MS, inactive: 15_000 * MS, install: 7500 * MS };
        let mut group = vec![member; 2];
        group[0].set(SUSPECT, "PT0.6S").unwrap();
        assert!(!in_proportion(&group));
        assert_eq!(group[0].set(SUSPECT, "PT0.05S"), Err(1210));
        assert_eq!(order(Mode::Own, Mode::Quick), [KEEPALIVE, SUSPECT]);
        assert_eq!(order(Mode::Pressed, Mode::Own), [SUSPECT, KEEPALIVE]);
    }
}
