//! A document: its parts said once, and written as text for a terminal or as a page that needs no other file. What explains and what is drawn is
//! for the page alone: a terminal has the docs beside it.

use crate::plot::Plot;
use crate::table::Table;
use crate::words::{each, escape};

pub struct Document {
    title: String,
    parts: Vec<Part>,
}

enum Part {
    Prose(String),
    /// As it is, with its spaces and ends of lines.
    Text(String),
    Lines(Vec<String>),
    Table(Table),
    /// From here on for the page alone.
    Heading(String),
    Remark(String),
    /// A picture with its caption, and tables that explain it.
    Figure(String, Plot, Vec<(String, Table)>),
    Facts(Vec<(String, String)>),
}

impl Document {
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), parts: Vec::new() }
    }

    /// A paragraph.
    pub fn prose(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Prose(text.into()));
    }

    /// Text whose columns are already made.
    pub fn text_as_is(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Text(text.into()));
    }

    /// Sentences, one a line.
    pub fn lines(&mut self, lines: impl IntoIterator<Item = String>) {
        self.parts.push(Part::Lines(lines.into_iter().collect()));
    }

    pub fn table(&mut self, table: Table) {
        self.parts.push(Part::Table(table));
    }

    pub fn heading(&mut self, text: &str) {
        self.parts.push(Part::Heading(text.to_owned()));
    }

    pub fn remark(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Remark(text.into()));
    }

    pub fn plot(&mut self, plot: Plot) {
        self.figure(String::new(), plot, Vec::new());
    }

    /// `below`: tables that explain the picture, each folded away under its name if it has one.
    pub fn figure(&mut self, caption: String, plot: Plot, below: Vec<(String, Table)>) {
        self.parts.push(Part::Figure(caption, plot, below));
    }

    /// Names and what they are: versions, settings.
    pub fn facts(&mut self, facts: impl IntoIterator<Item = (String, String)>) {
        self.parts.push(Part::Facts(facts.into_iter().collect()));
    }

    /// For a terminal: the parts with an empty line between, each line ended.
    pub fn text(&self) -> String {
        let parts = self.parts.iter().filter_map(|part| match part {
            Part::Prose(text) => Some(format!("{text}\n")),
            Part::Text(text) => Some(text.clone()),
            Part::Lines(lines) if lines.is_empty() => None,
            Part::Lines(lines) => Some(lines.join("\n") + "\n"),
            Part::Table(table) => Some(table.text()),
            Part::Heading(_) | Part::Remark(_) | Part::Figure(..) | Part::Facts(_) => None,
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    /// One file, for light and dark mode, large screens and phones.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let body = each(&self.parts, Part::html);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{}</style></head>\
             <body><main><h1>{title}</h1>{body}</main></body></html>\n",
            include_str!("style.css")
        )
    }
}

impl Part {
    fn html(&self) -> String {
        match self {
            Self::Prose(text) => format!("<p>{}</p>", escape(text)),
            Self::Text(text) => format!("<pre>{}</pre>", escape(text)),
            Self::Lines(lines) => {
                format!("<ul>{}</ul>", each(lines, |line| format!("<li>{}</li>", escape(line))))
            }
            Self::Table(table) => table.html(),
            Self::Heading(text) => format!("<h2>{}</h2>", escape(text)),
            Self::Remark(text) => format!("<p class=\"soft\">{}</p>", escape(text)),
            Self::Figure(caption, plot, below) => figure(caption, plot, below),
            Self::Facts(facts) => {
                let fact = |(name, value): &(String, String)| {
                    format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value))
                };
                format!("<dl>{}</dl>", each(facts, fact))
            }
        }
    }
}

fn figure(caption: &str, plot: &Plot, below: &[(String, Table)]) -> String {
    let caption = if caption.is_empty() {
        String::new()
    } else {
        format!("<figcaption>{}</figcaption>", escape(caption))
    };
    let key = each(&plot.key, |(colour, what)| {
        format!("<span><i style=\"background:var(--{colour})\"></i>{}</span>", escape(what))
    });
    let below = each(below, |(name, table)| match name.as_str() {
        "" => table.html(),
        name => format!("<details><summary>{}</summary>{}</details>", escape(name), table.html()),
    });
    format!(
        "<figure>{caption}<div class=\"plot\">{}</div><div class=\"key\">{key}</div>{below}</figure>",
        plot.svg()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Band, Column, Panel, Scale, Series};
    use crate::table::{Cell, Lean};

    fn plot() -> Plot {
        let line = |name: &str, most: f64| Series::Line {
            colour: "queue",
            is_dashed: false,
            points: (0..=100).map(|s| (f64::from(s) - 20.0, most * f64::from(s) / 100.0)).collect(),
            name: name.to_owned(),
        };
        let column = |s: u32| Column {
            from_s: f64::from(s),
            to_s: f64::from(s) + 1.0,
            values: vec![("bad", f64::from(s)), ("repeat", 12_000.0)],
        };
        Plot {
            label: "a \"test\"",
            axis: Axis { from_s: -10.0, to_s: 70.0, title: "seconds" },
            bands: vec![Band { from_s: -30.0, to_s: 90.0, colour: "tint", name: "away" }],
            moments: vec![(0.0, "SIGKILL <db1>".to_owned())],
            marks: vec![6.1, 6.2, 90.0],
            panels: vec![
                Panel::of("Lines", 150.0, vec![line("a <b>", 0.0), line("c", 1e5), line("d", 99_999.0)]),
                Panel::Values {
                    title: "Columns".to_owned(),
                    height: 60.0,
                    scale: Scale::LogMs(12_000.0),
                    series: vec![Series::Columns((0..70).map(column).collect())],
                },
                Panel::Row { name: "db1".to_owned(), bands: vec![], end: "1 s".to_owned() },
            ],
            key: vec![("queue", "what waits".to_owned())],
        }
    }

    #[test]
    fn everything_lies_inside_of_the_frame() {
        let mut empty = plot();
        (empty.axis, empty.panels) = (Axis::default(), vec![Panel::of("", 200.0, vec![])]);
        for svg in [plot().svg(), empty.svg(), Plot::default().svg()] {
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<b>"), "{svg}");
            let places = svg.split(" x=\"").skip(1).map(|part| part.split('"').next().unwrap());
            let points =
                svg.split("points=\"").skip(1).flat_map(|part| part.split('"').next().unwrap().split(' '));
            for x in places.chain(points.map(|point| point.split(',').next().unwrap())) {
                assert!((0.0..=960.0).contains(&x.parse::<f64>().unwrap()), "{x}");
            }
        }
        let svg = plot().svg();
        assert!(
            svg.contains("SIGKILL &lt;db1&gt;")
                && svg.contains("a &lt;b&gt;")
                && svg.contains(">10 s</text>")
        );
        assert!(svg.contains(">1-2</text>") && svg.contains(">3</text>"), "near marks share one: {svg}");
        assert!(svg.contains(">+10</text>") && svg.contains(">-10</text>"), "{svg}");
    }

    #[test]
    fn a_page_stands_alone_and_a_terminal_gets_the_figures() {
        let mut table = Table::new(&[("WHO", Lean::Left), ("READS", Lean::Right), ("TOOK, s", Lean::Right)]);
        table.cells([
            Cell::from("<db1>"),
            58_828_u64.into(),
            Cell::fixed(1.7, 1).on_page("1.7 s".to_owned()).bar(0.5, "ours"),
        ]);
        table.cells([Cell::from("db2"), None::<u64>.into(), None::<Cell>.into()]);
        let mut document = Document::new("a & b");
        document.prose("first");
        document.heading("Why?");
        document.remark("because");
        document.table(table);
        document.lines(["last".to_owned()]);
        document.lines([]);
        document.figure("caption".to_owned(), plot(), vec![]);
        document.facts([("name".to_owned(), "<value>".to_owned())]);
        assert_eq!(
            document.text(),
            "first\n\nWHO    READS  TOOK, s\n<db1>  58828      1.7\ndb2        -        -\n\nlast\n"
        );
        let page = document.html();
        for part in
            ["<title>a &amp; b<", "&lt;db1&gt;", "58,828", "1.7 s", "50.0%", "Why?", "&lt;value&gt;", "<svg"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        for part in ["http", "<script", "<db1>", "<value>"] {
            assert!(!page.contains(part), "{part}: {page}");
        }
    }
}
