//! Draws the model; takes no decisions.
//!
//! ```text
//!   head: cluster, term, writer, gate; why statements are held; the order in progress
//!   nodes: one line each
//!   group: flow control, and the node that causes it; the hold; the clients; how long nodes may be away; advice
//!   busy: the sessions that keep lanes busy
//!   events: the last decisions, as sentences; beside them the selected node's curve
//!   foot: keys, the question, the result of the last order
//! ```

use api::Status;
use api::proxy::{Busy, HoldStats, Stats};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Sparkline, Table, TableState};
use topology::view::{Decision, Level, TrafficFlow};

use super::model::Model;
use super::record::moment_ms;
use crate::status::{behind, figure, is_lost, last_answered, queue, replicates, role, state};
use report::table::{moment, span, wrap};

const DIM: Style = Style::new().fg(Color::DarkGray);
const GOOD: Style = Style::new().fg(Color::Green);
const WARN: Style = Style::new().fg(Color::Yellow);
const BAD: Style = Style::new().fg(Color::Red);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// The greatest number of lines for the sentence at the bottom.
const FOOT_LINES_MAX: usize = 8;
/// A rate over more seconds than this is not current, and is shown with its time span.
const LAST_SECOND_MAX_S: f64 = 3.0;
/// The greatest number of busy sessions shown.
const BUSY_MAX: usize = 5;

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let (head, group, busy) = (head(model), group(model), busy(&model.status));
    let nodes_height = model.status.nodes.len() as u16 + 1;
    // The foot always has its space, so that an open question is visible however small the terminal is.
    let foot_height = foot_height(model, frame.area().width);
    let [rest, foot_area] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(foot_height)]).areas(frame.area());
    let areas = Layout::vertical([
        Constraint::Length(head.len() as u16),
        Constraint::Length(nodes_height + 1),
        Constraint::Length(group.len() as u16),
        Constraint::Length(if busy.is_empty() { 0 } else { busy.len() as u16 + 1 }),
        Constraint::Min(3),
    ])
    .split(rest);
    frame.render_widget(Paragraph::new(head), areas[0]);
    nodes(frame, areas[1], model);
    frame.render_widget(Paragraph::new(group), areas[2]);
    frame.render_widget(titled("busy", busy), areas[3]);
    let lower = Layout::horizontal([Constraint::Min(40), Constraint::Length(32)]).split(areas[4]);
    frame.render_widget(titled("events (UTC)", events(&model.status, lower[0])), lower[0]);
    curve(frame, lower[1], model);
    foot(frame, foot_area, model);
}

fn titled<'a>(title: &'a str, lines: Vec<Line<'a>>) -> Paragraph<'a> {
    Paragraph::new(lines).block(Block::new().borders(Borders::TOP).title(title).border_style(DIM))
}

fn head(model: &Model) -> Vec<Line<'static>> {
    let status = &model.status;
    if model.json.is_null() {
        return vec![Line::from("waiting for the first status")];
    }
    let at = moment_ms(&model.json).map_or_else(String::new, moment);
    let (gate, gate_style) = if status.gate == TrafficFlow::Open { ("open", GOOD) } else { ("held", WARN) };
    let mut head = vec![Line::from(vec![
        Span::styled(plain(&format!("{} ({})", status.cluster, status.id)), BOLD),
        Span::raw(format!("  term {}  ", status.term)),
        Span::raw(plain(status.writer.as_deref().unwrap_or("no writer"))),
        Span::raw("  gate "),
        Span::styled(gate, gate_style),
        Span::styled(format!("  {}", at.get(..19).unwrap_or(&at)), DIM),
    ])];
    if let Some(because) = &status.hold_because {
        head.push(Line::styled(plain(&format!("statements wait: {because}")), WARN));
    }
    if let Some(order) = &status.order {
        head.push(Line::styled(plain(&format!("under way: {order}")), WARN));
    }
    head
}

fn nodes(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let status = &model.status;
    let is_replication = replicates(status);
    let titles: [&str; 13] = if is_replication {
        [
            "NODE", "ROLE", "STATE", "LANE", "SESS", "RUN", "BEHIND", "QUERY/s", "WRITE/s", "RECV/s",
            "APPLY/s", "RELAY", "WHY",
        ]
    } else {
        [
            "NODE", "ROLE", "STATE", "LANE", "SESS", "RUN", "QUEUE", "QUERY/s", "UP/s", "DOWN/s", "APPLY/s",
            "PAUSED", "WHY",
        ]
    };
    let rows = status.nodes.iter().map(|node| {
        let (lane, is_lost) = (status.proxy.lane(&node.name), is_lost(node));
        let rates = node.rates.flatten().unwrap_or_default();
        let queue = match (is_lost, is_replication) {
            (true, _) => "-".to_owned(),
            (false, true) => behind(node),
            (false, false) => figure(queue(node)),
        };
        let (up, last) = if is_replication {
            let replication = node.sample.and_then(|sample| sample.counters.replication);
            (rates.writes, figure(replication.and_then(|replication| replication.relay_log_bytes)))
        } else {
            (rates.replicated, percent(rates.paused))
        };
        let since = if is_lost { last_answered(node) } else { String::new() };
        let word = state(node, is_replication);
        let color = match word {
            _ if is_lost => BAD,
            "synced" | "running" => GOOD,
            _ => WARN,
        };
        let cells = [
            Cell::from(plain(&node.name)).style(BOLD),
            Cell::from(role(status, node)),
            Cell::from(word).style(color),
            Cell::from(node.lane.word()),
            right(figure(lane.map(|lane| lane.sessions))),
            right(figure(lane.map(|lane| lane.running))),
            right(queue),
            right(rate(rates.questions)),
            right(rate(up)),
            right(rate(rates.received)),
            right(rate(rates.applied)),
            right(last),
            Cell::from(plain(&format!("{}{since}", node.reason))),
        ];
        Row::new(cells)
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Min(10),
    ];
    let header = titles.into_iter().enumerate().map(|(place, title)| match place {
        4..=11 => right(title.to_owned()),
        _ => Cell::from(title),
    });
    let table = Table::new(rows, widths).header(Row::new(header).style(DIM)).column_spacing(1);
    let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    // Where not all nodes fit, the table scrolls to the selected one.
    let mut state = TableState::default().with_selected(model.chosen);
    frame.render_stateful_widget(table, area, &mut state);
}

/// The lines about the whole group.
fn group(model: &Model) -> Vec<Line<'static>> {
    let status = &model.status;
    let mut lines = Vec::new();
    if model.json.is_null() {
        return lines;
    }
    if !replicates(status) {
        let (said, style) = match &status.flow_control {
            Some(said) => (&**said, WARN),
            None => ("none", DIM),
        };
        lines.push(Line::from(vec![Span::raw("flow control  "), Span::styled(plain(said), style)]));
    }
    for node in &status.nodes {
        let over_s = node.rates.flatten().unwrap_or_default().over_s;
        if over_s > LAST_SECOND_MAX_S {
            let said = format!("rates         {}: those of the last {over_s:.0} s", node.name);
            lines.push(Line::styled(plain(&said), WARN));
        }
    }
    let HoldStats { waiting, held, resumed, evicted, expired, gone, .. } = &status.proxy.hold;
    let style = if *waiting > 0 { WARN } else { Style::new() };
    lines.push(Line::from(vec![
        Span::raw("hold          "),
        Span::styled(format!("{waiting} waiting"), style),
        Span::raw(format!(
            ", {held} held in all: {resumed} resumed, {evicted} evicted, {expired} expired, {gone} gone"
        )),
    ]));
    let Stats { clients, clients_total, sessions_moved, sessions_pinned, .. } = &status.proxy;
    lines.push(Line::from(format!(
        "clients       {clients} now, {clients_total} in all; sessions moved {sessions_moved}, cannot move now {sessions_pinned}"
    )));
    lines.extend(windows(status));
    for node in &status.nodes {
        for advice in &node.advice {
            let said = format!("advice        {}: {advice}", node.name);
            lines.push(Line::styled(plain(&said), WARN));
        }
    }
    lines
}

/// How long each node may be away and still catch up; a sentence for each node that is away.
fn windows(status: &Status) -> Vec<Line<'static>> {
    let (mut there, mut away) = (Vec::new(), Vec::new());
    for node in &status.nodes {
        let (name, Some(recovery)) = (&node.name, &node.recovery) else { continue };
        if !recovery.is_there {
            let style = if recovery.returns_by.is_none() { DIM } else { WARN };
            let said = format!("away          {name} {}", recovery.sentence);
            away.push(Line::styled(plain(&said), style));
        } else if let Some(s) = recovery.away_max_s {
            there.push(format!("{name} {}", span((s * 1000.0) as u64)));
        } else if recovery.returns_by.is_some() {
            there.push(format!("{name} without end"));
        }
    }
    let mut lines = Vec::new();
    if !there.is_empty() {
        lines.push(Line::from(plain(&format!("may be away   {}", there.join(", ")))));
    }
    lines.extend(away);
    lines
}

/// The sessions that keep lanes busy.
fn busy(status: &Status) -> Vec<Line<'static>> {
    let line = |Busy { node, id, user, client, what, .. }: &Busy| {
        Line::from(plain(&format!("{node}: session {id} of {user} from {client}: {what}")))
    };
    status.proxy.busy.iter().take(BUSY_MAX).map(line).collect()
}

/// The last decisions, as many as fit, newest last.
fn events(status: &Status, area: Rect) -> Vec<Line<'static>> {
    let all = &status.decisions;
    let room = usize::from(area.height.saturating_sub(1));
    let line = |decision: &Decision| {
        let at = moment(decision.at_unix_ms);
        let style = match decision.level {
            Level::Error => BAD,
            Level::Warn => WARN,
            Level::Info => Style::new(),
        };
        Line::from(vec![
            Span::styled(format!("{} ", at.get(11..19).unwrap_or(&at)), DIM),
            Span::styled(plain(&decision.text), style),
        ])
    };
    all[all.len().saturating_sub(room)..].iter().map(line).collect()
}

/// The applied rate of the selected node, newest at the right.
fn curve(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(name) = model.chosen_name() else { return };
    let history = model.applied.get(&name).map(|all| all.iter().copied().collect::<Vec<_>>());
    let history = history.unwrap_or_default();
    let shown = &history[history.len().saturating_sub(usize::from(area.width))..];
    let most = shown.iter().flatten().max().copied().unwrap_or(0);
    let title = plain(&format!("{name} applied/s, at most {most}"));
    let block = Block::new().borders(Borders::TOP).title(title).border_style(DIM);
    let curve = Sparkline::default().block(block).data(shown.iter().copied()).style(GOOD);
    let curve = curve.absent_value_symbol("?").absent_value_style(DIM);
    frame.render_widget(curve, area);
}

fn foot(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let keys = match (&model.asked, model.replay) {
        (Some(_), _) => format!("type yes and Enter: {}   any other key: no", model.typed),
        (None, Some(replay)) => format!(
            "recording: {} of {}{}   space pause  left/right step  home/end  q quit",
            replay.at + 1,
            replay.count,
            if replay.is_paused { ", paused" } else { "" }
        ),
        (None, None) => "up/down choose   d drain  u undrain  s make it the writer   q quit".to_owned(),
    };
    let [above, below] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
    let (said, style) = said(model);
    let lines: Vec<Line<'_>> = wrap(&said, usize::from(area.width)).into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).style(style), above);
    frame.render_widget(Line::styled(keys, DIM), below);
}

/// The sentence at the bottom.
fn said(model: &Model) -> (String, Style) {
    match (&model.asked, &model.trouble, &model.message) {
        (Some(order), ..) => (plain(&order.question()), BOLD),
        (None, Some(trouble), _) => (plain(trouble), BAD),
        (None, None, _) if model.is_ordering => ("the order is under way".to_owned(), WARN),
        (None, None, Some(message)) => (plain(message), BOLD),
        (None, None, None) => (String::new(), Style::new()),
    }
}

/// The height of the sentence at the bottom and the line of keys: a question or an error is not cut off.
fn foot_height(model: &Model, width: u16) -> u16 {
    let lines = wrap(&said(model).0, usize::from(width.max(1))).len();
    lines.clamp(1, FOOT_LINES_MAX) as u16 + 1
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).alignment(Alignment::Right))
}

/// A rate, with one decimal below 10; a dash if it is not known.
fn rate(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.1} %", part * 100.0))
}

/// Text from servers and clients must not contain control characters for the terminal.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}
