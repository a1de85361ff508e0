//! Every run that was made on a machine, in a file of SQLite: whole, and its cells for searching.
//!
//! Runs that end together wait for each other, up to ten seconds; one that ends in the middle of writing leaves nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

use crate::cell::Document;

/// The format of the file, in its `user_version`.
const FORMAT: i64 = 1;

/// How long one run waits for others that write.
const PATIENCE: Duration = Duration::from_secs(10);

/// The statements that make a file of each format out of one of the format before.
const MIGRATIONS: [&str; FORMAT as usize] = ["
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        began INTEGER NOT NULL,
        seconds REAL NOT NULL,
        fingerprint TEXT NOT NULL,
        cpu TEXT NOT NULL,
        command TEXT NOT NULL,
        cells INTEGER NOT NULL,
        invalid INTEGER NOT NULL,
        document TEXT NOT NULL
    );
    CREATE INDEX runs_by_machine ON runs (fingerprint, number);
    CREATE TABLE cells (
        run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
        method TEXT NOT NULL,
        transport TEXT NOT NULL,
        placement TEXT NOT NULL,
        params TEXT NOT NULL,
        unit TEXT NOT NULL,
        n INTEGER NOT NULL,
        median REAL,
        ci95_low REAL,
        ci95_high REAL,
        ratio REAL,
        valid INTEGER NOT NULL,
        verdict TEXT
    );
    CREATE INDEX cells_by_run ON cells (run);
    CREATE INDEX cells_by_name ON cells (method, transport, placement, params);
"];

/// The file of the user's data directory: `$XDG_DATA_HOME/millstream/bench.db`, else below `~/.local/share` (XDG Base
/// Directory Specification, which says that a relative path is to be ignored). `None` without either.
pub fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(directory.join("millstream/bench.db"))
}

/// An open history.
pub struct History {
    connection: Connection,
    path: PathBuf,
}

/// A run without its samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Counts up, and is never given again.
    pub number: i64,
    /// When it began: seconds since 1970, UTC.
    pub began: u64,
    /// How many seconds it took.
    pub seconds: f64,
    /// [`Machine::fingerprint`](crate::machine::Machine::fingerprint)
    pub fingerprint: String,
    /// The processor, for people.
    pub cpu: String,
    /// The arguments that measure it again.
    pub command: Vec<String>,
    /// The methods that it has cells of.
    pub methods: Vec<String>,
    /// How many cells.
    pub cells: usize,
    /// How many of them failed their checks.
    pub invalid: usize,
}

/// Which runs are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// Only those on this machine.
    pub fingerprint: Option<&'a str>,
    /// Only those that have cells of this method.
    pub method: Option<&'a str>,
    /// Only those in which every cell passed its checks.
    pub is_valid: bool,
}

impl History {
    /// Opens the file, and makes it and its directory where they are missing.
    ///
    /// # Errors
    /// A sentence: the file cannot be made, read or written, or is of a newer program.
    pub fn open(path: &Path) -> Result<History, String> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(|error| cannot("make", directory, &error))?;
        }
        let mut history = History::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        history.migrate()?;
        Ok(history)
    }

    /// Opens the file as it is; `None` where there is none.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or is of a newer program.
    pub fn open_existing(path: &Path) -> Result<Option<History>, String> {
        match path.try_exists() {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(error) => return Err(cannot("read", path, &error)),
        }
        let history = History::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        match history.format()? {
            0 => Ok(None),
            _ => Ok(Some(history)),
        }
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<History, String> {
        let connection = Connection::open_with_flags(path, flags).map_err(|error| cannot("open", path, &error))?;
        let history = History { connection, path: path.to_owned() };
        history.connection.busy_timeout(PATIENCE).map_err(|error| history.cannot("open", &error))?;
        history.connection.pragma_update(None, "foreign_keys", true).map_err(|error| history.cannot("open", &error))?;
        Ok(history)
    }

    /// The format of the file, which this program must know.
    fn format(&self) -> Result<i64, String> {
        let format = self.connection.pragma_query_value(None, "user_version", |row| row.get(0));
        match format.map_err(|error| self.cannot("read", &error))? {
            known @ 0..=FORMAT => Ok(known),
            newer => Err(format!(
                "the history '{}' has format {newer}, and this millstream knows none after {FORMAT}: update millstream, or \
                 move the file away to begin a new history",
                self.path.display()
            )),
        }
    }

    /// Brings a file of an older format, or an empty one, to this format.
    fn migrate(&mut self) -> Result<(), String> {
        if self.format()? == FORMAT {
            return Ok(());
        }
        let path = self.path.clone();
        let failed = |error: rusqlite::Error| cannot("prepare", &path, &error);
        let change = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        // Another program may have done it while this one waited.
        let format: i64 = change.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        for statements in MIGRATIONS.iter().skip(usize::try_from(format).unwrap_or(0)) {
            change.execute_batch(statements).map_err(failed)?;
        }
        change.pragma_update(None, "user_version", FORMAT.max(format)).map_err(failed)?;
        change.commit().map_err(failed)
    }

    /// Keeps a run and returns its number.
    ///
    /// # Errors
    /// A sentence; nothing of the run was kept.
    pub fn add(&mut self, document: &Document) -> Result<i64, String> {
        let path = self.path.clone();
        let failed = |error: rusqlite::Error| cannot("write", &path, &error);
        let as_json = |error: serde_json::Error| cannot("write", &path, &error);
        let text = serde_json::to_string(document).map_err(as_json)?;
        let command = serde_json::to_string(&document.command).map_err(as_json)?;
        let invalid = document.cells.iter().filter(|cell| !cell.valid).count();
        let change = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        change
            .execute(
                "INSERT INTO runs (began, seconds, fingerprint, cpu, command, cells, invalid, document)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    document.began as i64,
                    document.seconds,
                    document.machine.fingerprint(),
                    document.machine.cpu,
                    command,
                    document.cells.len() as i64,
                    invalid as i64,
                    text
                ],
            )
            .map_err(failed)?;
        let number = change.last_insert_rowid();
        {
            let mut insert =
                change.prepare("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)").map_err(failed)?;
            for cell in &document.cells {
                let parameters = serde_json::to_string(&cell.params).map_err(as_json)?;
                let row = params![
                    number,
                    &*cell.method,
                    &*cell.transport,
                    &*cell.placement,
                    parameters,
                    &*cell.unit,
                    cell.n as i64,
                    cell.median,
                    cell.ci95.map(|bounds| bounds[0]),
                    cell.ci95.map(|bounds| bounds[1]),
                    cell.ratio,
                    cell.valid,
                    cell.verdict.map(|verdict| verdict.to_string()),
                ];
                insert.execute(row).map_err(failed)?;
            }
        }
        change.commit().map_err(failed)?;
        Ok(number)
    }

    /// Runs, the newest first, at most `limit`.
    ///
    /// # Errors
    /// A sentence: the file cannot be read.
    pub fn runs(&self, filter: Filter<'_>, limit: usize) -> Result<Vec<Run>, String> {
        let failed = |error: rusqlite::Error| self.cannot("read", &error);
        let mut select = self
            .connection
            .prepare(
                "SELECT number, began, seconds, fingerprint, cpu, command, cells, invalid,
                     (SELECT json_group_array(DISTINCT method) FROM cells WHERE run = number)
                 FROM runs
                 WHERE (?1 IS NULL OR fingerprint = ?1) AND (?3 = 0 OR invalid = 0)
                     AND (?2 IS NULL OR EXISTS (SELECT 1 FROM cells WHERE run = number AND method = ?2))
                 ORDER BY number DESC LIMIT ?4",
            )
            .map_err(failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let wanted = params![filter.fingerprint, filter.method, filter.is_valid, limit];
        let runs = select.query_map(wanted, |row| {
            let list = |text: String| serde_json::from_str(&text).unwrap_or_default();
            Ok(Run {
                number: row.get(0)?,
                began: row.get::<_, i64>(1)?.unsigned_abs(),
                seconds: row.get(2)?,
                fingerprint: row.get(3)?,
                cpu: row.get(4)?,
                command: list(row.get(5)?),
                cells: row.get::<_, i64>(6)?.unsigned_abs() as usize,
                invalid: row.get::<_, i64>(7)?.unsigned_abs() as usize,
                methods: list(row.get(8)?),
            })
        });
        runs.map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
    }

    /// A run as it was written; `None` if there is no such run.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or the run is in a format that this program does not know.
    pub fn document(&self, number: i64) -> Result<Option<Document>, String> {
        let text: Option<String> = self
            .connection
            .query_row("SELECT document FROM runs WHERE number = ?", [number], |row| row.get(0))
            .optional()
            .map_err(|error| self.cannot("read", &error))?;
        text.map(|text| Document::from_json(&text).map_err(|why| format!("run {number} of the history {why}")))
            .transpose()
    }

    /// Forgets all but the newest `keep` runs of each machine, gives the room back, and returns how many are gone.
    ///
    /// # Errors
    /// A sentence; nothing is gone.
    pub fn prune(&mut self, keep: usize) -> Result<usize, String> {
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        let gone = self.connection.execute(
            "DELETE FROM runs WHERE number IN (
                 SELECT number FROM (
                     SELECT number, row_number() OVER (PARTITION BY fingerprint ORDER BY number DESC) AS age FROM runs
                 ) WHERE age > ?)",
            [keep],
        );
        let gone = gone.map_err(|error| self.cannot("write", &error))?;
        if gone > 0 {
            // What is deleted is deleted, also if the file cannot be made smaller now.
            let _ = self.connection.execute_batch("VACUUM");
        }
        Ok(gone)
    }

    fn cannot(&self, what: &str, error: &dyn std::error::Error) -> String {
        cannot(what, &self.path, error)
    }
}

fn cannot(what: &str, path: &Path, error: &dyn std::error::Error) -> String {
    format!("cannot {what} the history '{}': {error}", path.display())
}
