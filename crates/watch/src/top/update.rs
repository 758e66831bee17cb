//! Applies a message to the model, and returns what has to be done outside.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::model::{Model, Order, Replay};

/// The word that confirms an order.
pub const YES: &str = "yes";

/// An input of the view.
#[derive(Debug)]
pub enum Message {
    /// A newer status.
    Status(Value),
    /// The status could not be fetched; the reason.
    Trouble(String),
    /// A key.
    Key(KeyEvent),
    /// The result of an order, as a sentence.
    Done(String),
    /// The view has to end.
    Stop,
}

/// An action outside the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// End.
    Quit,
    /// Send this order.
    Order(Order),
    /// Show that state of the recording.
    Seek(usize),
}

/// Applies a message.
pub fn update(model: &mut Model, message: Message) -> Option<Effect> {
    match message {
        Message::Status(status) => {
            model.take(status);
            None
        }
        Message::Trouble(why) => {
            model.trouble = Some(why);
            None
        }
        Message::Done(sentence) => {
            (model.message, model.is_ordering) = (Some(sentence), false);
            None
        }
        Message::Stop => Some(Effect::Quit),
        Message::Key(key) => press(model, key),
    }
}

fn press(model: &mut Model, key: KeyEvent) -> Option<Effect> {
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return Some(Effect::Quit);
    }
    if let Some(order) = model.asked.take() {
        return answer(model, order, key);
    }
    let last = model.status.nodes.len().saturating_sub(1);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Some(Effect::Quit),
        KeyCode::Up | KeyCode::Char('k') => model.chosen = model.chosen.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => model.chosen = (model.chosen + 1).min(last),
        code => match model.replay {
            Some(replay) => return wind(model, replay, code),
            None => ask(model, code),
        },
    }
    None
}

/// Handles a key while a question is open. Anything but the whole word and Enter means no: a few letters typed into the wrong window must
/// not move the writer.
fn answer(model: &mut Model, order: Order, key: KeyEvent) -> Option<Effect> {
    if key.code == KeyCode::Enter && model.typed == YES {
        model.is_ordering = true;
        return Some(Effect::Order(order));
    }
    if let KeyCode::Char(letter) = key.code {
        model.typed.push(letter);
        if YES.starts_with(&model.typed) && key.modifiers.is_empty() {
            model.asked = Some(order);
            return None;
        }
    }
    model.message = Some("not done".to_owned());
    None
}

/// Handles a key for an order, which has to be confirmed first.
fn ask(model: &mut Model, code: KeyCode) {
    let order: fn(String) -> Order = match code {
        KeyCode::Char('d') => Order::Drain,
        KeyCode::Char('u') => Order::Undrain,
        KeyCode::Char('s') => Order::Switchover,
        _ => return,
    };
    model.message = None;
    if model.is_ordering {
        model.message = Some("an order is under way: wait for its end".to_owned());
    } else {
        model.asked = model.chosen_name().map(order);
        model.typed.clear();
    }
}

/// Handles a key that moves in a recording.
fn wind(model: &mut Model, replay: Replay, code: KeyCode) -> Option<Effect> {
    let last = replay.count.saturating_sub(1);
    let (at, is_paused) = match code {
        KeyCode::Char(' ') => (replay.at, !replay.is_paused),
        KeyCode::Left => (replay.at.saturating_sub(1), true),
        KeyCode::Right => ((replay.at + 1).min(last), true),
        KeyCode::Home => (0, replay.is_paused),
        KeyCode::End => (last, replay.is_paused),
        KeyCode::Char('d' | 'u' | 's') => {
            model.message = Some("this is a recording: nothing can be ordered".to_owned());
            return None;
        }
        _ => return None,
    };
    model.replay = Some(Replay { at, is_paused, ..replay });
    (at != replay.at).then_some(Effect::Seek(at))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model() -> Model {
        let mut model = Model::default();
        model.take(json!({ "nodes": [{ "name": "db1" }, { "name": "db2", "rates": { "applied": 5.4 } }] }));
        model
    }

    fn press(model: &mut Model, code: KeyCode) -> Option<Effect> {
        update(model, Message::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    #[test]
    fn an_order_needs_a_yes() {
        let mut model = model();
        press(&mut model, KeyCode::Down);
        assert_eq!(press(&mut model, KeyCode::Char('d')), None);
        assert_eq!(model.asked, Some(Order::Drain("db2".into())));
        assert_eq!(press(&mut model, KeyCode::Enter), None, "anything but yes is a no");
        assert_eq!((&model.asked, model.message.as_deref()), (&None, Some("not done")));
        press(&mut model, KeyCode::Char('s'));
        let order = Order::Switchover("db2".into());
        for letter in ['y', 'e', 's'] {
            assert_eq!(press(&mut model, KeyCode::Char(letter)), None);
        }
        assert_eq!(press(&mut model, KeyCode::Enter), Some(Effect::Order(order)));
        assert_eq!(press(&mut model, KeyCode::Char('u')), None);
        assert_eq!(model.asked, None, "one order at a time");
        update(&mut model, Message::Done("db2 writes now".into()));
        press(&mut model, KeyCode::Char('u'));
        assert_eq!(model.asked, Some(Order::Undrain("db2".into())));
    }

    #[test]
    fn a_text_that_was_meant_for_another_window_orders_nothing() {
        for text in ["systemctl status mariadb\n", "sync\n", "dy\n", "syes", "sye\n", "s\n"] {
            let mut model = model();
            for letter in text.chars() {
                let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
                assert!(!matches!(press(&mut model, code), Some(Effect::Order(_))), "{text:?}");
            }
        }
    }

    #[test]
    fn a_question_does_not_outlive_the_writer_it_was_asked_under() {
        let mut model = model();
        press(&mut model, KeyCode::Char('d'));
        model.take(json!({ "writer": "db2", "nodes": [{ "name": "db1" }, { "name": "db2" }] }));
        assert_eq!(
            (&model.asked, model.message.as_deref()),
            (&None, Some("the writer has changed: not done"))
        );
    }

    #[test]
    fn nobody_orders_anything_by_leaving() {
        for code in [KeyCode::Esc, KeyCode::Char('q'), KeyCode::Char('n')] {
            let mut model = model();
            press(&mut model, KeyCode::Char('d'));
            assert_eq!(press(&mut model, code), None, "the question is answered first");
            assert_eq!(model.asked, None);
        }
        let mut model = model();
        assert_eq!(press(&mut model, KeyCode::Char('q')), Some(Effect::Quit));
        press(&mut model, KeyCode::Char('d'));
        let break_off = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(update(&mut model, Message::Key(break_off)), Some(Effect::Quit));
    }

    #[test]
    fn a_recording_is_wound_and_orders_nothing() {
        let mut model = model();
        model.replay = Some(Replay { at: 1, count: 3, is_paused: false });
        assert_eq!(press(&mut model, KeyCode::Right), Some(Effect::Seek(2)));
        assert_eq!(press(&mut model, KeyCode::Right), None, "that was the end");
        assert!(model.replay.is_some_and(|replay| replay.is_paused));
        assert_eq!(press(&mut model, KeyCode::Home), Some(Effect::Seek(0)));
        assert_eq!(press(&mut model, KeyCode::Char('d')), None);
        assert!(model.asked.is_none() && model.message.is_some());
    }

    #[test]
    fn the_choice_stays_among_the_nodes() {
        let mut model = model();
        for _ in 0..5 {
            press(&mut model, KeyCode::Down);
        }
        assert_eq!(model.chosen, 1);
        model.take(json!({ "nodes": [{ "name": "db1" }] }));
        assert_eq!(model.chosen, 0);
        model.take(json!({}));
        assert_eq!((model.chosen_name(), press(&mut model, KeyCode::Char('d'))), (None, None));
        assert_eq!(model.asked, None);
        assert_eq!(model.applied["db2"], [Some(5)]);
        assert_eq!(model.applied["db1"], [None, None], "what is not known is not 0");
    }
}
