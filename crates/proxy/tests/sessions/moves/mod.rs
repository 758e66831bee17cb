//! Sessions that are moved from node to node, beside a twin that stands on one server: each kind of what a session has, said before the move and asked for
//! after it. What is done and asked stands in `cases/*.txt`:
//!
//! ```text
//!   # a note
//!   == a name                   a test; what stands before the first one holds for all tests of the file
//!   setup                       SQL that is run on every server once, as root; a test's own comes behind its file's
//!   clean                       statements that are run on every server before each session
//!   servers: --option=value     options of the servers
//!   login: WORDS | WORDS        a session for each: user= password= schema= collation= no-eof tracked ignore-space interactive
//!   moved: handed over | drained, shut      a session for each, and the moves of that session one after the other. Unless said: handed over, drained,
//!                               and shut. Also: not at all; given up (a switchover that does not come); at the second attempt
//!   said: as text | prepared    a session for each, of what comes before the move
//!   answers: the same           what is right after a move. Also: the same or unknown (error 9110 goes on, 9104 and 9111 end the session); the same until
//!                               unknown (each of them is the case's end)
//!   rarely unknown              nearly all answers must be the same
//!   first                       said before each case
//!   last                        said after each case, before the move
//!   then                        asked after each move, behind the case's own questions
//!   last, one of                a session for each of these lines. Also: then, the first and every third of
//!   cases                       a session for each of these lines
//!       A // B => C // D        A, and then B; a move; C, and then D. Before the move nothing but the same answer is right.
//!           => E                what is indented further goes on with the line above: another move, and E
//! ```
//!
//! A statement may be a command of `situations/situations.txt`: `.ping .reset .init .user .raw .prepare .execute .root` (on every server). `.login WORDS`
//! begins a case, and `.times N SQL` is N statements, with the number of each for `{}`. Before a statement may stand what the moved session is told:
//! `[the same]`, `[9104 or 1046]` (one of these errors), `[answered]` (no error, not NULL), `[NULL]`, `[anything when shut]`, `[the end when shut]`.

mod read;
mod run;

/// A test for each section of each file.
macro_rules! tests {
    ($($file:ident { $($name:ident)* })*) => {
        $(mod $file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::run::play(concat!(stringify!($file), ".txt"), stringify!($name)).await;
            })*
        })*

        const TESTS: &[(&str, &[&str])] = &[$((concat!(stringify!($file), ".txt"), &[$(stringify!($name)),*])),*];
    };
}

tests! {
    locks {
        a_lock_that_stored_code_took_is_known_where_the_server_can_tell
    }
    names {
        names_and_collations_come_along
        a_prepared_set_names_comes_along
        the_collation_of_the_login_comes_along
        a_login_without_a_collation_comes_along
        the_collation_of_a_change_of_user_comes_along
    }
    prepared {
        a_prepared_statement_runs_under_what_was_in_force_at_its_preparation
        what_a_prepared_statement_writes_is_where_it_was_prepared_for
        a_statement_goes_back_and_forth_and_another_beside_it_is_of_another_schema
        a_statement_that_was_prepared_without_a_schema_has_none_elsewhere
        a_statement_whose_schema_is_gone_says_what_its_server_says
        a_preparation_does_not_take_the_report_of_what_failed_code_has_set
    }
    recall {
        the_last_insert_id_is_never_a_wrong_number
        what_made_the_last_insert_id_may_be_prepared
        whatever_depends_on_the_past_is_right_or_an_error
        a_planned_move_reads_user_variables_back
        a_user_variable_that_a_parameter_gave_comes_along_or_is_missed
        what_random_sessions_have_found_stays_found
        what_a_prepared_statement_set_is_not_undone_by_preparing_another_again
        what_a_login_asked_for_and_a_reset_took_away_does_not_come_back
        what_the_proxy_asks_by_itself_changes_no_answer
        a_role_goes_with_a_reset_and_no_move_brings_it_back
    }
    schema {
        a_schema_comes_along_whichever_character_set_its_name_was_said_in
        a_session_goes_on_without_a_schema_that_is_gone
        prepared_statements_of_a_session_without_its_schema
        a_refused_change_of_the_user_leaves_what_mariadb_leaves
        a_reset_session_is_still_without_its_schema
    }
    sequences {
        only_what_was_drawn_since_is_told
    }
    settings {
        settings_that_depend_on_one_another_come_along
        what_the_proxy_asks_is_answered_whatever_the_session_has_set
        user_variables_of_plain_values_move_however_often_they_were_set
        what_is_asked_before_a_move_that_does_not_come_changes_nothing
        a_transaction_to_come_is_what_it_was_to_be
    }
    stored_code {
        what_stored_code_set_comes_along_or_ends_the_session
        plain_reads_tie_nobody
        every_form_of_answer_is_the_servers_own
    }
}

#[test]
fn every_section_of_every_file_is_a_test() {
    let mut files: Vec<_> =
        std::fs::read_dir(run::folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    let listed: Vec<_> = TESTS.iter().map(|(file, _)| *file).collect();
    assert_eq!(files, listed);
    for (file, names) in TESTS {
        let sections: Vec<_> = run::sections(file).into_iter().map(|section| section.name).collect();
        assert_eq!(sections, *names, "{file}");
    }
}
