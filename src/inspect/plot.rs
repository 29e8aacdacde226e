//! KV memory against context as an SVG, for all models that were understood.
//!
//! Both axes are logarithmic, so that a constant state is flat, a full cache a straight line, and a
//! window a bend. Solid is *needed*; dashed, where it differs, is *reserved*. The picture stands alone:
//! no script, no font, no address.

use super::units::{show_bytes, show_count};
use super::{Inspected, Inspections};
use crate::error::Result;

const WIDTH: f64 = 1020.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 88.0;
const RIGHT: f64 = 370.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 56.0;
/// Shortest context that is drawn, in tokens.
const SHORTEST: u64 = 256;
/// Longest context that is drawn where no model states a limit, in tokens.
const LONGEST: u64 = 1 << 17;
/// Points per doubling of the context: enough for a bend to look like one.
const POINTS_PER_DOUBLING: u32 = 8;
/// Most models that can be told apart.
const MOST_LINES: usize = 16;

/// Colours that are told apart without red and green (Okabe and Ito, "Color Universal Design", 2008).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#000000", "#7a4fbf"];

/// One model's curves: context and bytes.
struct Curve {
    name: String,
    needed: Vec<(f64, f64)>,
    reserved: Option<Vec<(f64, f64)>>,
}

/// Draws the picture. Models that were not understood or keep no cache are left out.
///
/// # Errors
/// `UnsupportedConfig` when a figure does not fit in 64 bits.
pub fn svg(inspections: &Inspections) -> Result<String> {
    let models: Vec<(&str, &Inspected)> = inspections
        .models
        .iter()
        .filter_map(|inspection| Some((inspection.id.as_str(), inspection.outcome.as_ref().ok()?)))
        .take(MOST_LINES)
        .collect();
    let asked = inspections.options.contexts.iter().copied();
    let limits =
        models.iter().filter_map(|(_, model)| model.description.max_context.map(|limit| limit as u64));
    let longest = asked.clone().max().or(limits.max()).unwrap_or(LONGEST).max(SHORTEST * 2);
    let shortest = asked.min().unwrap_or(SHORTEST).clamp(1, longest / 2);
    let contexts = points(shortest, longest);
    let curves: Vec<Curve> = models
        .iter()
        .map(|(name, model)| curve(name, model, &contexts, inspections))
        .collect::<Result<_>>()?;
    Ok(draw(&curves, shortest as f64, longest as f64, inspections))
}

/// Lengths from `shortest` to `longest`, evenly spaced on a logarithmic axis.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two positive integers")]
fn points(shortest: u64, longest: u64) -> Vec<u64> {
    let doublings = (longest as f64 / shortest as f64).log2();
    let count = (doublings * f64::from(POINTS_PER_DOUBLING)).ceil().max(1.0) as u32;
    let at = |index: u32| shortest as f64 * (doublings * f64::from(index) / f64::from(count)).exp2();
    let mut points: Vec<u64> = (0..=count).map(|index| (at(index).round() as u64).min(longest)).collect();
    points.dedup();
    points
}

fn curve(name: &str, model: &Inspected, contexts: &[u64], inspections: &Inspections) -> Result<Curve> {
    let options = &inspections.options;
    let state = model.state_bytes(options.kv_type).unwrap_or(0).saturating_mul(options.batch);
    let limit = model.description.max_context.map_or(u64::MAX, |limit| limit as u64);
    let mut needed = Vec::new();
    let mut reserved = Vec::new();
    let asked = !options.contexts.is_empty();
    let inside = contexts.iter().copied().filter(|&context| context < limit || asked);
    let end = Some(limit).filter(|&limit| !asked && contexts.last().is_some_and(|&last| limit <= last));
    for context in inside.chain(end) {
        let row = model.memory_at(context, options)?;
        needed.push((context as f64, row.needed.saturating_add(state) as f64));
        reserved.push((context as f64, row.reserved.saturating_add(state) as f64));
    }
    let reserved = (reserved != needed).then_some(reserved);
    Ok(Curve { name: name.to_owned(), needed, reserved })
}

/// A picture under construction.
struct Axes {
    shortest: f64,
    longest: f64,
    least: f64,
    most: f64,
}

impl Axes {
    fn x(&self, context: f64) -> f64 {
        let share = (context / self.shortest).log2() / (self.longest / self.shortest).log2();
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, bytes: f64) -> f64 {
        let share = (bytes.max(self.least) / self.least).log2() / (self.most / self.least).log2();
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let steps = points.iter().enumerate().map(|(index, &(context, bytes))| {
            let letter = if index == 0 { 'M' } else { 'L' };
            format!("{letter}{:.1} {:.1}", self.x(context), self.y(bytes))
        });
        steps.collect::<Vec<_>>().join(" ")
    }
}

fn draw(curves: &[Curve], shortest: f64, longest: f64, inspections: &Inspections) -> String {
    let options = &inspections.options;
    let values = || {
        let all = |curve: &'_ Curve| {
            curve.needed.iter().chain(curve.reserved.iter().flatten()).map(|p| p.1).collect::<Vec<_>>()
        };
        curves.iter().flat_map(all).filter(|&bytes| bytes > 0.0)
    };
    let power = |bytes: f64, round: fn(f64) -> f64| round(bytes.log2() / 2.0).mul_add(2.0, 0.0).exp2();
    let least = power(values().fold(f64::INFINITY, f64::min).min(1e18), f64::floor);
    let most = power(values().fold(1024.0, f64::max), f64::ceil).max(least * 4.0);
    let axes = Axes { shortest, longest, least, most };
    let name =
        crate::config::KvType::ALL.iter().find(|(_, kv)| *kv == options.kv_type).map_or("", |entry| entry.0);
    let sequences =
        if options.batch == 1 { "one sequence".to_owned() } else { format!("{} sequences", options.batch) };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\" role=\"img\" aria-label=\"KV memory against context length\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"16\" fill=\"#222222\">KV cache and recurrent state, {name}, {sequences}</text>\n\
         <text x=\"{LEFT}\" y=\"42\" fill=\"#555555\">solid: needed, dashed: reserved where it differs; both axes are logarithmic</text>\n"
    );
    svg += &grid(&axes);
    let mut labels: Vec<(f64, usize)> = Vec::new();
    for (index, curve) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        // Sixteen lines share eight colours: the second eight are thinner.
        let thick = if index < COLOURS.len() { 2.5 } else { 1.25 };
        if let Some(reserved) = &curve.reserved {
            svg += &format!(
                "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{thick}\" stroke-dasharray=\"5 4\"/>\n",
                axes.path(reserved)
            );
        }
        if let Some(last) = curve.needed.last() {
            svg += &format!(
                "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{thick}\"/>\n",
                axes.path(&curve.needed)
            );
            svg += &format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>\n",
                axes.x(last.0),
                axes.y(last.1)
            );
            labels.push((axes.y(last.1), index));
        }
    }
    for (y, index) in spread(labels) {
        let curve = &curves[index];
        let (context, bytes) = curve.needed.last().copied().unwrap_or_default();
        let colour = COLOURS[index % COLOURS.len()];
        let x = WIDTH - RIGHT + 14.0;
        svg += &format!(
            "<text x=\"{x}\" y=\"{y:.1}\" fill=\"{colour}\">{} <tspan fill=\"#555555\">{}</tspan></text>\n",
            escaped(&shortened(&curve.name)),
            end_text(context, bytes)
        );
    }
    svg + "</svg>\n"
}

/// What stands behind a name: the last point of its curve.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "both came from integers")]
fn end_text(context: f64, bytes: f64) -> String {
    if bytes > 0.0 {
        format!("{} at {}", show_bytes(bytes as u64), show_count(context as u64))
    } else {
        "no cache".to_owned()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ticks are powers of two")]
fn grid(axes: &Axes) -> String {
    let mut svg = String::new();
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let mut context = axes.shortest.log2().ceil().exp2();
    let doublings = (axes.longest / axes.shortest).log2();
    let step = if doublings > 12.0 { 4.0 } else { 2.0 };
    while context <= axes.longest * 1.0001 {
        let x = axes.x(context);
        svg += &format!("<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#e4e4e4\"/>\n");
        svg += &format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555555\">{}</text>\n",
            bottom + 18.0,
            show_count(context as u64)
        );
        context *= step;
    }
    let mut bytes = axes.least;
    let step = if (axes.most / axes.least).log2() > 16.0 { 16.0 } else { 4.0 };
    while bytes <= axes.most * 1.0001 {
        let y = axes.y(bytes);
        svg += &format!("<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e4e4e4\"/>\n");
        svg += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555555\">{}</text>\n",
            LEFT - 8.0,
            y + 4.0,
            show_bytes(bytes as u64)
        );
        bytes *= step;
    }
    svg += &format!("<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#888888\"/>\n");
    svg + &format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#222222\">context, tokens</text>\n",
        f64::midpoint(LEFT, right),
        HEIGHT - 14.0
    )
}

/// Moves labels apart so that none covers another.
fn spread(mut labels: Vec<(f64, usize)>) -> Vec<(f64, usize)> {
    const GAP: f64 = 17.0;
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = TOP - GAP;
    for label in &mut labels {
        label.0 = (label.0 + 4.0).max(lowest + GAP);
        lowest = label.0;
    }
    let over = (lowest - (HEIGHT - 20.0)).max(0.0);
    for label in &mut labels {
        label.0 -= over;
    }
    labels
}

/// The end of a long name, which tells models apart.
fn shortened(name: &str) -> String {
    const MOST: usize = 30;
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let shown = if last == "config.json" { name } else { last };
    let len = shown.chars().count();
    if len <= MOST {
        shown.to_owned()
    } else {
        format!("...{}", shown.chars().skip(len - MOST).collect::<String>())
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Depth, Options};
    use super::*;

    #[test]
    fn points_span_the_range() {
        let points = points(256, 131_072);
        assert_eq!((points[0], *points.last().unwrap()), (256, 131_072));
        assert!(points.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_picture_has_a_line_for_each_model_and_survives_odd_names() {
        let names =
            ["meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "state-spaces/mamba-130m-hf", "no/such"];
        let mut inspections = Inspections::new(&names.map(str::to_owned), Options::default(), Depth::Headers);
        inspections.models[0].id = "<script>&\"\u{1b}".to_owned();
        let svg = svg(&inspections).unwrap();
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("stroke-dasharray").count(), 1, "only the windowed model reserves more");
        assert!(svg.contains("&lt;script&gt;&amp;&quot;") && !svg.contains("<script"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let labels = spread(vec![(100.0, 0), (101.0, 1), (500.0, 2), (505.0, 3)]);
        assert!(labels.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 16.9), "{labels:?}");
    }
}
