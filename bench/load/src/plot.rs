//! `load plot`: plots how costs grow with the number of series, or with the hours, as SVG.
//!
//! A panel for each cost, a line for each server, both axes logarithmic. The grey line shows growth
//! proportional to the load from the first point of promkairos; below it is cheaper. Only loads
//! whose names end in `N series x H h` are plotted.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::record::{self, Record};

/// The plotted costs, the loads that measure them, and their units.
const COSTS: [(&str, &str); 6] = [
    ("server CPU", "s"),
    ("peak memory", "B"),
    ("disk", "B"),
    ("ready after kill -9", "s"),
    ("sum by(rate) of all series over 15 min, again", "ms"),
    ("sum by(rate) of 8,800 series over all hours, again", "ms"),
];
const COLORS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(230, 80, 30), RGBColor(110, 60, 160), RGBColor(40, 140, 60)];
/// Size of a panel in pixels.
const PANEL: (u32, u32) = (480, 320);

#[derive(Args)]
pub struct Options {
    /// File with one record a line.
    records: PathBuf,
    /// What grows.
    #[arg(long, value_enum)]
    by: By,
    /// File to draw into.
    #[arg(long)]
    svg: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// The series, over one hour.
    Series,
    /// The hours, of the smallest number of series.
    Hours,
}

pub fn run(options: &Options) -> io::Result<()> {
    let records = record::read(&options.records)?.records;
    let panels: Vec<(String, Panel)> = COSTS
        .into_iter()
        .map(|(cost, unit)| (format!("{cost} [{unit}]"), panel(&records, cost, options.by)))
        .filter(|(_, panel)| panel.values().any(|line| line.len() > 1))
        .collect();
    if panels.is_empty() {
        return Err(io::Error::other("no cost was measured for two loads"));
    }
    draw(options, &panels).map_err(|error| io::Error::other(error.to_string()))
}

/// The points of each server, as x and y.
type Panel = BTreeMap<String, Vec<(f64, f64)>>;

fn panel(records: &[Record], cost: &str, by: By) -> Panel {
    let sizes = records.iter().filter_map(|record| Some((size(&record.load)?, record)));
    let fewest = sizes.clone().map(|((series, _), _)| series).fold(f64::INFINITY, f64::min);
    let mut panel = Panel::new();
    for ((series, hours), record) in sizes.filter(|(_, record)| record.figure == cost) {
        let at = match by {
            By::Series if hours == 1.0 => series,
            By::Hours if series == fewest => hours,
            _ => continue,
        };
        panel.entry(record.server.clone()).or_default().push((at, record.value));
    }
    for line in panel.values_mut() {
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    panel
}

/// The number of series and of hours in the name of a load.
fn size(load: &str) -> Option<(f64, f64)> {
    let (series, hours) = load.split_once(" series x ")?;
    let hours = hours.strip_suffix(" h")?.parse().ok()?;
    let (series, factor) = match series.rsplit_once(' ') {
        Some((series, "k")) => (series, 1e3),
        Some((series, "M")) => (series, 1e6),
        _ => (series, 1.0),
    };
    Some((series.parse::<f64>().ok()? * factor, hours))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(options: &Options, panels: &[(String, Panel)]) -> Result<(), Box<dyn Error>> {
    let rows = panels.len().div_ceil(2);
    let size = (2 * PANEL.0, rows as u32 * PANEL.1);
    let root = SVGBackend::new(&options.svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, (title, panel)) in root.split_evenly((rows, 2)).iter().zip(panels) {
        draw_panel(area, title, panel, options.by)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(area: &Area<'_>, title: &str, panel: &Panel, by: By) -> Result<(), Box<dyn Error>> {
    let all: Vec<(f64, f64)> = panel.values().flatten().copied().collect();
    let guide = guide(panel, &all);
    let (left, right) = bounds(all.iter().map(|point| point.0));
    let (low, high) = bounds(all.iter().chain(&guide).map(|point| point.1));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (left / 1.2..right * 1.2).log_scale(),
            (low / 1.5..high * 1.5).log_scale(),
        )?;
    let label = |value: &f64| with_prefix(*value);
    let grows = match by {
        By::Series => "series",
        By::Hours => "hours",
    };
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(grows).x_labels(6).y_labels(6).x_label_formatter(&label).y_label_formatter(&label);
    mesh.light_line_style(TRANSPARENT).draw()?;
    chart.draw_series(LineSeries::new(guide, RGBColor(190, 190, 190)))?;
    for ((server, line), color) in panel.iter().zip(COLORS.iter().cycle()) {
        let style = color.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.clone(), style))?
            .label(server)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        let dots = line.iter().map(|point| Circle::new(*point, 3, color.filled()));
        chart.draw_series(dots)?;
    }
    let mut legend = chart.configure_series_labels();
    legend.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8)).draw()?;
    Ok(())
}

/// Growth proportional to the load, from the first point of promkairos to the largest load.
fn guide(panel: &Panel, all: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let first = panel.get("promkairos").and_then(|line| line.first());
    let Some((x, y)) = first.copied() else { return Vec::new() };
    let last = all.iter().map(|point| point.0).fold(x, f64::max);
    vec![(x, y), (last, y * last / x)]
}

fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)))
}

/// `20k`, `1M`; small numbers unchanged.
fn with_prefix(value: f64) -> String {
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.into_iter().find(|(least, _)| value >= *least) {
        Some((least, prefix)) => format!("{}{prefix}", value / least),
        None => format!("{value}"),
    }
}
