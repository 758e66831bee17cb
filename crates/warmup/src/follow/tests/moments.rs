//! Rotations in the very moment in which somebody reads or looks: the watching task does not run here, so each moment is chosen.

use super::*;

/// Lines of this kind, all at once.
fn lines(writer: &Writer, count: u64) {
    (0..count).for_each(|_| writer.line());
}

fn copy_and_truncate(path: &Path) {
    rename_all(path);
    fs::copy(path, format!("{}.1", path.display())).unwrap();
    empty(path);
    // A tick of the file system's clock, by which files are put in order.
    std::thread::sleep(Duration::from_millis(5));
}

/// A log that is read from its start; nobody has looked at it.
struct Followed {
    directory: tempfile::TempDir,
    path: PathBuf,
    writer: Arc<Writer>,
    log: Log,
    cursor: Cursor,
}

/// With so many lines in it.
fn followed(count: u64) -> Followed {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.log");
    let writer = Writer::new(&path);
    lines(&writer, count);
    let log = Log::watch(&path).unwrap();
    let cursor = log.at_start().unwrap();
    Followed { directory, path, writer, log, cursor }
}

/// The watching task does not run in these: their runtime has one thread, which does not wait.
#[tokio::test]
async fn a_reader_that_has_read_nothing_does_not_take_the_next_file_for_its_own() {
    // What was there when it was looked at first: nothing, or lines that were not read.
    for first in [0, 3] {
        let Followed { directory: _directory, path, writer, log, mut cursor } = followed(first);
        lines(&writer, 5);
        copy_and_truncate(&path);
        lines(&writer, 20);
        // Between the first rotation and the second, before anybody has looked: this is another file's content.
        assert_eq!(cursor.read(&mut [0; 1000]).unwrap(), Read::End, "{first}");
        copy_and_truncate(&path);
        lines(&writer, 40);
        assert_eq!(cursor.read(&mut [0; 1000]).unwrap(), Read::End, "{first}");
        let mut read = Vec::new();
        read_all(&log, &mut cursor, &mut read);
        assert_eq!(read, (0..writer.written()).collect::<Vec<u64>>(), "{first}");
    }
}

#[tokio::test]
async fn a_log_that_is_rotated_in_the_middle_of_a_look_is_read_once() {
    let Followed { directory: _directory, path, writer, log, mut cursor } = followed(0);
    let (rotates, at) = (Arc::clone(&writer), path.clone());
    log.looked.lock().unwrap().meanwhile = Some(Box::new(move || {
        for count in [5, 20] {
            lines(&rotates, count);
            copy_and_truncate(&at);
        }
        lines(&rotates, 40);
    }));
    let mut read = Vec::new();
    read_all(&log, &mut cursor, &mut read);
    assert_eq!(read, (0..65).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_reader_comes_out_of_a_file_that_is_cut_while_it_reads() {
    let Followed { directory: _directory, path, writer, log, mut cursor } = followed(10);
    assert_eq!(cursor.read(&mut [0; 35]).unwrap(), Read::Bytes(35));
    let rotated = path.with_extension("log.1");
    fs::rename(&path, &rotated).unwrap();
    writer.flush();
    log.looked().unwrap();
    // As `slowlog rotate` removes old files: from their end, until nothing is left.
    let old = OpenOptions::new().write(true).open(&rotated).unwrap();
    old.set_len(49).unwrap();
    assert_eq!(cursor.read(&mut [0; 1000]).unwrap(), Read::Bytes(14));
    old.set_len(0).unwrap();
    assert_eq!(cursor.behind_bytes(), 21 + "started\n".len() as u64);
    assert_eq!(cursor.read(&mut [0; 1000]).unwrap(), Read::Rotated { lost_bytes: 21 });
    assert_eq!(cursor.read(&mut [0; 1000]).unwrap(), Read::Bytes("started\n".len()));
}

#[tokio::test]
async fn a_log_that_vanishes_and_comes_back_is_gone_on_with() {
    let Followed { directory: _directory, path, writer, log, mut cursor } = followed(3);
    let mut read = Vec::new();
    read_all(&log, &mut cursor, &mut read);
    fs::remove_file(&path).unwrap();
    // The server has it open, whatever its name is.
    lines(&writer, 3);
    read_all(&log, &mut cursor, &mut read);
    assert_eq!(read, (0..6).collect::<Vec<u64>>());
    let mut late = log.at_end().unwrap();
    writer.flush();
    lines(&writer, 3);
    read_all(&log, &mut cursor, &mut read);
    assert_eq!(read, (0..9).collect::<Vec<u64>>());
    let mut after = Vec::new();
    read_all(&log, &mut late, &mut after);
    assert_eq!(after, [6, 7, 8]);
}

#[tokio::test]
async fn a_copy_that_ended_before_what_was_seen_last_is_read_to_its_end() {
    // What was there when it was looked at first: nothing, or some of what the copy has.
    for first in [0, 4] {
        let Followed { directory: _directory, path, writer, log, mut cursor } = followed(first);
        log.looked().unwrap();
        lines(&writer, 10 - first);
        fs::copy(&path, path.with_extension("log.1")).unwrap();
        lines(&writer, 5);
        log.looked().unwrap();
        empty(&path);
        lines(&writer, 20);
        let mut read = Vec::new();
        let lost_bytes = read_what_is_left(&log, &mut cursor, &mut read);
        assert_eq!(read, (0..10).chain(15..35).collect::<Vec<u64>>(), "{first}");
        assert_eq!(lost_bytes, 5 * "line NN\n".len() as u64, "{first}");
    }
}
