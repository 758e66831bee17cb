//! Writes log lines like MHA: `Fri Jul  4 09:21:49 2014 - [info] text`, to standard error, or to a file if one is named.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use time::{OffsetDateTime, UtcOffset};

/// The target of the log lines.
#[derive(Clone)]
pub struct Log {
    offset: UtcOffset,
    file: Option<Arc<File>>,
}

impl Log {
    /// Logs to standard error. Must be called while the process has one thread; otherwise the times are UTC.
    pub fn new() -> Self {
        Self { offset: UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC), file: None }
    }

    /// Appends to this file instead.
    pub fn to(mut self, file: &Path) -> Result<Self, String> {
        let opened = OpenOptions::new().create(true).append(true).mode(0o640).open(file);
        let opened = opened.map_err(|e| format!("{} cannot be written: {e}", file.display()))?;
        self.file = Some(Arc::new(opened));
        Ok(self)
    }

    pub fn info(&self, text: &str) {
        self.write("info", text);
    }

    pub fn warning(&self, text: &str) {
        self.write("warning", text);
    }

    pub fn error(&self, text: &str) {
        self.write("error", text);
    }

    fn write(&self, level: &str, text: &str) {
        let now = stamp(OffsetDateTime::now_utc().to_offset(self.offset));
        let mut lines = String::new();
        for line in text.split('\n') {
            lines += &format!("{now} - [{level}] {line}\n");
        }
        // An error in writing the log cannot be reported anywhere.
        let _ = match &self.file {
            Some(file) => (&**file).write_all(lines.as_bytes()),
            None => std::io::stderr().write_all(lines.as_bytes()),
        };
    }
}

/// In the format of Perl's `localtime`.
fn stamp(at: OffsetDateTime) -> String {
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    format!(
        "{} {} {:2} {:02}:{:02}:{:02} {}",
        &weekday[..3],
        &month[..3],
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.year()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_as_mhas() {
        let at = OffsetDateTime::from_unix_timestamp(1_404_465_709).unwrap();
        assert_eq!(stamp(at), "Fri Jul  4 09:21:49 2014");
    }
}
