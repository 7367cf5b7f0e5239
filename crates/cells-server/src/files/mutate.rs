//! `POST /v1/fs/{alias}/mutate` (`files-http.md` §5.3).

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use cells_protocol::mutations::{MutateAction, MutateRequest};
use rustix::fs::{AtFlags, FileType, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::admit_write;
use super::confine::{ExportPath, kind, stat_child};
use super::operations::intent::{Identity, Intent, OpenPlace};
use super::operations::{Operation, OperationKey};
use super::staging::{Leftover, flush, make_directory};
use super::steps::Step;
use crate::app::AppState;
use crate::deadline::Deadline;
use crate::extract::JsonBody;
use crate::refusal::Refusal;

/// A change of names.
enum Mutation {
    Mkdir(ExportPath),
    Rename { from: ExportPath, to: ExportPath },
    Remove(ExportPath),
}

pub(super) async fn mutate(
    State(app): State<AppState>,
    Path(alias): Path<String>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MutateRequest>,
) -> Result<Response, Refusal> {
    let deadline = Deadline::start(&headers)?;
    let mutation = Mutation::of(request)?;
    let (principal, alias, export) = admit_write(&app, &headers, &alias)?;
    let key = OperationKey::of(principal.id(), &alias, &headers)?;
    let work = async move |operation: Operation| {
        operation.blocking(move |operation| mutation.execute(operation)).await?;
        Ok(None)
    };
    Ok(app.files.operations.run(key, export, deadline, work).await)
}

impl Mutation {
    fn of(request: MutateRequest) -> Result<Self, Refusal> {
        if request.recursive {
            return Err(Refusal::UNSUPPORTED);
        }
        let action = MutateAction::from_name(&request.action).ok_or(Refusal::INVALID)?;
        let path = ExportPath::parse(request.path).ok_or(Refusal::INVALID)?;
        Ok(match action {
            MutateAction::Mkdir => Self::Mkdir(path),
            MutateAction::Remove => Self::Remove(path),
            MutateAction::Rename => {
                let to = request.to.and_then(ExportPath::parse).ok_or(Refusal::INVALID)?;
                Self::Rename { from: path, to }
            }
        })
    }

    /// An error says that nothing changed. Blocks.
    fn execute(&self, operation: &Operation) -> Result<(), Refusal> {
        match self {
            Self::Mkdir(path) => make_directory(operation, path),
            Self::Rename { from, to } => rename(operation, from, to),
            Self::Remove(path) => remove(operation, path),
        }
    }
}

fn rename(operation: &Operation, from: &ExportPath, to: &ExportPath) -> Result<(), Refusal> {
    let root = &operation.export().root;
    let (from, to) = (OpenPlace::open(root, from)?, OpenPlace::open(root, to)?);
    let object = from.stat()?.ok_or(Refusal::NOT_FOUND)?;
    if to.stat()?.is_some() {
        return Err(Refusal::EXISTS);
    }
    let intent = Intent::Move { from: from.place().clone(), to: to.place().clone(), object: Identity::from(&object) };
    operation.intend(&intent, None)?;
    in_turn(operation, &[&from, &to], || {
        Ok(renameat_with(from.as_fd(), &from.name, to.as_fd(), &to.name, RenameFlags::NOREPLACE)?)
    })
}

fn remove(operation: &Operation, path: &ExportPath) -> Result<(), Refusal> {
    let place = Arc::new(OpenPlace::open(&operation.export().root, path)?);
    let object = place.stat()?.ok_or(Refusal::NOT_FOUND)?;
    let is_directory = kind(&object) == FileType::Directory;
    let aside = if is_directory { None } else { Some(Leftover::new(operation, &place, AtFlags::empty())?) };
    let intent = Intent::Remove {
        at: place.place().clone(),
        aside: aside.as_ref().map(|aside| aside.name.clone()),
        object: Identity::from(&object),
    };
    operation.intend(&intent, aside.clone())?;
    in_turn(operation, &[&place], || match &aside {
        None => Ok(unlinkat(place.as_fd(), &place.name, AtFlags::REMOVEDIR)?),
        Some(aside) => put_aside(&place, &aside.name),
    })
}

/// Takes the name from what is no directory. It is removed when the receipt is written, and proves until then what was
/// done.
fn put_aside(place: &OpenPlace, aside: &str) -> Result<(), Refusal> {
    renameat(place.as_fd(), &place.name, place.as_fd(), aside)?;
    match stat_child(place.as_fd(), aside) {
        Ok(stat) if kind(&stat) == FileType::Directory => {
            // Somebody put a directory in the place of the file at this moment; it goes back.
            renameat_with(place.as_fd(), aside, place.as_fd(), &place.name, RenameFlags::NOREPLACE)?;
            Err(Errno::ISDIR.into())
        }
        _ => Ok(()),
    }
}

/// Does `effect` under the lock of the export, if the directories are still where they were.
fn in_turn(
    operation: &Operation,
    places: &[&OpenPlace],
    effect: impl FnOnce() -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    {
        let _turn = operation.export().turn();
        operation.check()?;
        if !places.iter().all(|place| place.is_current(&operation.export().root)) {
            return Err(Refusal::CONFLICT);
        }
        operation.step(Step::Effect)?;
        effect()?;
    }
    let _ = operation.step(Step::Done);
    flush(places);
    Ok(())
}
