//! One value each, as it may stand in a file that root runs: what would break that file, or mean something else in it, is refused.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use cli::duration::milliseconds;
use cli::exit::Failure;

/// The longest name of a device that the kernel takes.
const INTERFACE_BYTES_MAX: usize = 15;

/// keepalived warns of what is there twice, and its `--config-test` fails then.
pub(super) fn twice<T: PartialEq + std::fmt::Display>(option: &str, all: &[T]) -> Result<(), Failure> {
    match all.iter().enumerate().find(|(at, one)| all[..*at].contains(one)) {
        Some((_, one)) => Err(Failure::Usage(format!("{option} {one} is there twice"))),
        None => Ok(()),
    }
}

/// A path as seen from here, which is not where it is used.
pub(super) fn whole_path(path: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(path)
        .map_err(|e| Failure::Usage(format!("{}: cannot be made a whole path: {e}", path.display())))?;
    plain_path(&path)
}

/// A path that can stand in a command line of keepalived, and of systemd, without quotes.
pub(super) fn plain_path(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| {
        path.is_absolute() && text.chars().all(|c| c.is_alphanumeric() || "/._-+@:,=".contains(c))
    });
    text.map(str::to_owned).ok_or_else(|| {
        Failure::Usage(format!(
            "{}: in keepalived's configuration a path must begin with / and have only letters, digits and . _ - + @ : , =",
            path.display()
        ))
    })
}

pub(super) fn advert_interval_ms(text: &str) -> Result<u32, String> {
    // VRRP counts hundredths of a second, in 12 bits.
    let ms = milliseconds(10..=40_950)(text).ok().filter(|ms| ms.is_multiple_of(10));
    let ms = ms.and_then(|ms| u32::try_from(ms).ok());
    ms.ok_or_else(|| "must be 10 to 40950 ms, in steps of 10, such as 250 or 1s".into())
}

pub(super) fn peer(text: &str) -> Result<IpAddr, String> {
    let ip: IpAddr = text.parse().map_err(|_| "is not an IP address".to_owned())?;
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || ip == Ipv4Addr::BROADCAST {
        return Err("is not the address of another machine".into());
    }
    Ok(ip)
}

pub(super) fn interface(text: &str) -> Result<String, String> {
    // `@` and `~` mean something to keepalived, and a device of a parent (`eth0.5@eth0` in `ip link`) is known without it.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.+".contains(&byte);
    if text.is_empty() || text.len() > INTERFACE_BYTES_MAX || !text.bytes().all(fits) {
        return Err(format!(
            "a device's name has 1 to {INTERFACE_BYTES_MAX} letters, digits and signs of _ - . +"
        ));
    }
    if text == "lo" {
        return Err("VRRP needs a network, which lo is not".into());
    }
    Ok(text.to_owned())
}

pub(super) fn word(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if text.is_empty() || text.len() > 32 || !text.bytes().all(fits) {
        return Err("must be 1 to 32 letters, digits, _ - or .".into());
    }
    Ok(text.to_owned())
}

pub(super) fn command(text: &str) -> Result<String, String> {
    if text.chars().any(|c| c.is_control() || c == '"') {
        return Err("must be one line without \"; use ' for words with spaces".into());
    }
    if text.contains(['\\', '$']) {
        return Err(
            "must have no \\ and no $, which keepalived replaces; write what needs them into a script".into(),
        );
    }
    let words = shlex::split(text).ok_or("has a quote that does not end")?;
    match words.first() {
        Some(program) if program.starts_with('/') => Ok(text.to_owned()),
        _ => Err("must begin with the whole path of a program: keepalived looks nowhere else".into()),
    }
}
