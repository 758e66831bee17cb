//! How families of figures are written in Prometheus' text format.

use std::fmt::{Display, Write};

use measure::histogram::Snapshot;

/// What one name tells of a `T`.
pub struct Family<T: ?Sized + 'static> {
    pub name: &'static str,
    pub kind: &'static str,
    pub help: &'static str,
    /// Adds its lines.
    pub values: fn(&T, &mut Lines<'_>),
}

/// Tables of families: what each is told of, and a row a family with its kind, name, help and values.
macro_rules! families {
    ($($table:ident($of:ty) { $($kind:ident $name:literal $help:literal => $values:expr;)* })*) => {
        $(static $table: &[$crate::metrics::page::Family<$of>] = &[$($crate::metrics::page::Family {
            name: $name, kind: stringify!($kind), help: $help, values: $values,
        }),*];)*
    };
}
pub(crate) use families;

/// The text, as far as it is written.
pub struct Page {
    pub text: String,
    /// The labels that every line has.
    common: String,
}

impl Page {
    /// An empty one; each of its lines will have these labels.
    pub fn new(common: &[(&str, &str)]) -> Self {
        let mut labels = String::new();
        append(&mut labels, common);
        Self { text: String::new(), common: labels }
    }

    /// Writes all families of a table, also those without a line.
    pub fn add<T: ?Sized>(&mut self, table: &[Family<T>], of: &T) {
        for Family { name, kind, help, values } in table {
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            values(of, &mut Lines { page: self, name });
        }
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let mut all = self.common.clone();
        append(&mut all, labels);
        // Writing to a string does not fail.
        let _ = match all.is_empty() {
            true => writeln!(self.text, "{name} {value}"),
            false => writeln!(self.text, "{name}{{{all}}} {value}"),
        };
    }
}

/// The lines of one family.
pub struct Lines<'a> {
    page: &'a mut Page,
    name: &'static str,
}

impl Lines<'_> {
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.page.line(self.name, labels, value);
    }

    /// The only one.
    pub fn one(&mut self, value: impl Display) {
        self.add(&[], value);
    }

    /// A node's.
    pub fn node(&mut self, node: &str, value: impl Display) {
        self.add(&[("node", node)], value);
    }

    /// One for each value of a label.
    pub fn by<'l>(&mut self, label: &str, values: impl IntoIterator<Item = (&'l str, u64)>) {
        for (of, value) in values {
            self.add(&[(label, of)], value);
        }
    }

    /// A histogram's buckets, sum and count.
    pub fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Snapshot) {
        let bounds = histogram.at_most.iter().map(|(bound, count)| (bound.as_secs_f64().to_string(), *count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), histogram.count)]) {
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.page.line(&format!("{}_bucket", self.name), &labels, count);
        }
        let sum = format!("{:.6}", histogram.sum.as_secs_f64());
        self.page.line(&format!("{}_sum", self.name), labels, sum);
        self.page.line(&format!("{}_count", self.name), labels, histogram.count);
    }
}

fn append(text: &mut String, labels: &[(&str, &str)]) {
    for (label, value) in labels {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{comma}{label}=\"{value}\"");
    }
}
