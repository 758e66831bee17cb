//! The report: one HTML file that needs nothing else. Pure: a [`Report`] in, text out.

use super::result::Report;

/// The whole page.
pub fn page(report: &Report) -> String {
    format!("<pre>{}</pre>", super::table::draw(report))
}
