//! A plot: panels below each other on one horizontal axis of seconds, as an inline SVG for a page. What is drawn is said here; [`svg`] draws it.

mod svg;

/// A colour of the palette in style.css, by its name there.
pub type Colour = &'static str;

/// What is drawn.
#[derive(Default)]
pub struct Plot {
    /// For those who cannot see it.
    pub label: &'static str,
    pub axis: Axis,
    /// Times, drawn behind all panels.
    pub bands: Vec<Band>,
    /// Moments with a name, as lines across all panels.
    pub moments: Vec<(f64, String)>,
    /// Moments that are numbered from 1, above the panels.
    pub marks: Vec<f64>,
    pub panels: Vec<Panel>,
    /// What the colours mean.
    pub key: Vec<(Colour, String)>,
}

/// The horizontal axis, s.
#[derive(Default)]
pub struct Axis {
    pub from_s: f64,
    pub to_s: f64,
    pub title: &'static str,
}

/// A time in one colour.
pub struct Band {
    pub from_s: f64,
    pub to_s: f64,
    pub colour: Colour,
    /// Written where it has room; may be empty.
    pub name: &'static str,
}

/// One part of a plot.
pub enum Panel {
    /// Values over time.
    Values { title: String, height: f64, scale: Scale, series: Vec<Series> },
    /// What held when, as bands in one row, with a word behind the last one.
    Row { name: String, bands: Vec<Band>, end: String },
}

/// A vertical axis from 0, or from 1 where it is logarithmic, to its top.
#[derive(Clone, Copy)]
pub enum Scale {
    Linear(f64),
    /// Times in ms.
    LogMs(f64),
}

pub enum Series {
    /// Points that are joined, with a name beside the last one.
    Line {
        colour: Colour,
        is_dashed: bool,
        points: Vec<(f64, f64)>,
        name: String,
    },
    Columns(Vec<Column>),
}

/// What was counted in a time, stacked.
pub struct Column {
    pub from_s: f64,
    pub to_s: f64,
    pub values: Vec<(Colour, f64)>,
}

impl Series {
    pub fn line(colour: Colour, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::Line { colour, is_dashed: false, points: points.into_iter().collect(), name: String::new() }
    }

    pub fn dashed(colour: Colour, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::Line { colour, is_dashed: true, points: points.into_iter().collect(), name: String::new() }
    }

    /// The greatest value, of columns the highest stack.
    fn most(&self) -> f64 {
        let values: &mut dyn Iterator<Item = f64> = match self {
            Self::Line { points, .. } => &mut points.iter().map(|point| point.1),
            Self::Columns(columns) => {
                &mut columns.iter().map(|column| column.values.iter().map(|part| part.1).sum())
            }
        };
        values.fold(0.0, f64::max)
    }
}

impl Panel {
    /// Values from 0 on, with a round number above all of them at the top.
    pub fn of(title: &str, height: f64, series: Vec<Series>) -> Self {
        let most = series.iter().map(Series::most).fold(0.0, f64::max);
        Self::Values { title: title.to_owned(), height, scale: Scale::Linear(axis_top(most)), series }
    }
}

/// The end of a plot's vertical axis for values up to `most`: the next number whose quarters are round and whole, so that the labels of the four
/// lines are exact.
fn axis_top(most: f64) -> f64 {
    let quarter = (most / 4.0).max(1.0);
    let power = 10_f64.powf(quarter.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0].map(|step| step * power);
    let round = steps.into_iter().find(|step| step.fract() == 0.0 && *step >= quarter);
    4.0 * round.unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_exact_labels_on_its_quarters() {
        let tops = [0.0, 3.0, 4.2, 17.0, 50.0, 943.0, 9_100.0, 41_234.0, 349_812.0]
            .map(|most| axis_top(most) as u32);
        assert_eq!(tops, [4, 4, 8, 20, 60, 1000, 10_000, 60_000, 400_000]);
        for most in (0..100_000).step_by(7).map(f64::from) {
            let top = axis_top(most);
            assert!(top >= most && top <= 2.0 * most.max(4.0) && (top / 4.0).fract() == 0.0, "{most}: {top}");
        }
    }
}
