//! A session that is moved from node to node: each kind of what it has, said before the move and asked for after it.

mod names;
mod prepared;
mod recall;
mod schema;
mod sequences;
mod settings;
mod stored_code;
