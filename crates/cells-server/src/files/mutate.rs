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
use super::operations::{Failure, Operation, OperationKey};
use super::staging::{Leftover, LeftoverKind, flush, make_directory};
use super::steps::Step;
use crate::app::AppState;
use crate::extract::TimedJsonBody;
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
    TimedJsonBody { body: request, deadline }: TimedJsonBody<MutateRequest>,
) -> Result<Response, Refusal> {
    let deadline = deadline?;
    let mutation = Mutation::of(request)?;
    let (principal, alias, export) = admit_write(&app, &headers, &alias)?;
    let key = OperationKey::of(principal.id(), &alias, &headers)?;
    let work = async move |operation: Operation| {
        operation.blocking(move |operation| mutation.execute(operation)).await.map(|()| None)
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

    /// Blocks.
    fn execute(&self, operation: &Operation) -> Result<(), Failure> {
        match self {
            Self::Mkdir(path) => make_directory(operation, path),
            Self::Rename { from, to } => rename(operation, from, to),
            Self::Remove(path) => remove(operation, path),
        }
    }
}

fn rename(operation: &Operation, from: &ExportPath, to: &ExportPath) -> Result<(), Failure> {
    let root = &operation.export().root;
    let (from, to) = (OpenPlace::open(root, from)?, OpenPlace::open(root, to)?);
    let object = Identity::from(&from.stat()?.ok_or(Refusal::NOT_FOUND)?);
    if to.stat()?.is_some() {
        return Err(Refusal::EXISTS.into());
    }
    let intent = Intent::Move { from: from.place().clone(), to: to.place().clone(), object };
    operation.intend(&intent, None)?;
    in_turn(operation, &[&from, &to], object, || {
        renameat_with(from.as_fd(), &from.name, to.as_fd(), &to.name, RenameFlags::NOREPLACE)
            .map_err(Failure::of_effect)
    })
}

fn remove(operation: &Operation, path: &ExportPath) -> Result<(), Failure> {
    let place = Arc::new(OpenPlace::open(&operation.export().root, path)?);
    let stat = place.stat()?.ok_or(Refusal::NOT_FOUND)?;
    let object = Identity::from(&stat);
    let aside = match kind(&stat) {
        FileType::Directory => None,
        _ => Some(Leftover::new(operation, &place, LeftoverKind::File)?),
    };
    let name = aside.as_ref().map(|aside| aside.name.clone());
    operation.intend(&Intent::Remove { at: place.place().clone(), aside: name, object }, aside.as_ref())?;
    in_turn(operation, &[&place], object, || match &aside {
        None => unlinkat(place.as_fd(), &place.name, AtFlags::REMOVEDIR).map_err(Failure::of_effect),
        Some(aside) => put_aside(operation, &place, &aside.name),
    })
}

/// Takes the name from what is no directory. It is removed when the receipt is written, and proves until then what was
/// done.
fn put_aside(operation: &Operation, place: &OpenPlace, aside: &str) -> Result<(), Failure> {
    renameat(place.as_fd(), &place.name, place.as_fd(), aside).map_err(Failure::of_effect)?;
    if !stat_child(place.as_fd(), aside).is_ok_and(|stat| kind(&stat) == FileType::Directory) {
        return Ok(());
    }
    // Somebody put a directory in the place of the file at this moment; it goes back.
    let _ = operation.step(Step::GiveBack);
    match renameat_with(place.as_fd(), aside, place.as_fd(), &place.name, RenameFlags::NOREPLACE) {
        Ok(()) => Err(Errno::ISDIR.into()),
        Err(errno) => {
            tracing::error!("a folder that came in the place of a removed file is named {aside} from now on: {errno}");
            Err(Failure::Unsure(errno.into()))
        }
    }
}

/// Does `effect` under the lock of the export, if the directories are still where they were and the first place still has
/// the object.
fn in_turn(
    operation: &Operation,
    places: &[&OpenPlace],
    object: Identity,
    effect: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    {
        let _turn = operation.export().turn();
        operation.check()?;
        if !places.iter().all(|place| place.is_current(&operation.export().root)) {
            return Err(Refusal::CONFLICT.into());
        }
        let here = places.first().map_or(Ok(None), |place| place.stat())?;
        if here.as_ref().map(Identity::from) != Some(object) {
            return Err(Refusal::CONFLICT.into());
        }
        operation.step(Step::Effect).map_err(Failure::of_effect)?;
        effect()?;
    }
    let _ = operation.step(Step::Done);
    flush(places);
    Ok(())
}
