//! Opening files: of what is neither a file nor a folder, a guest gets `access`. Opening a pipe may wait without end,
//! and would hold a thread of the node for that time, also after the end of the guest.
//!
//! These functions replace those of `wasmtime-wasi`, look at the path, and forward the call.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::{Dir, Mode, OFlags};
use wasmtime::component::{Accessor, Linker as Components, Resource};
use wasmtime::{AsContextMut, Caller, Extern, Linker as Modules, StoreContextMut};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p1::types::{Fd, Filetype, Lookupflags};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self, WasiSnapshotPreview1};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsResult, ReaddirIterator};
use wasmtime_wasi::p3::bindings::filesystem::types as concurrent;
use wiggle::{GuestMemory, GuestPtr};

use crate::engine::fiber::waiting;
use crate::guest::state::GuestState;
use crate::module::load::P1;
use crate::wasi::descriptors;
use crate::wasi::guarded::{ERRNO_ACCES, ERRNO_FAULT, ERRNO_MFILE, ERRNO_NOMEM};
use crate::wasi::outcome::outcome;

/// Bytes in memory for each byte of a folder's file.
const BYTES_OF_LISTED: usize = 8;

type Given = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);
type GivenConcurrent =
    (Resource<Descriptor>, concurrent::PathFlags, String, concurrent::OpenFlags, concurrent::DescriptorFlags);

/// Replaces the function of components.
pub(crate) fn link_components(linker: &mut Components<GuestState>) -> wasmtime::Result<()> {
    linker.instance("wasi:filesystem/types@0.2.12")?.func_wrap_async(
        "[method]descriptor.open-at",
        |mut caller: StoreContextMut<'_, GuestState>, given: Given| {
            Box::new(async move { outcome(waiting(open(caller.data_mut(), given)).await) })
        },
    )?;
    linker.instance("wasi:filesystem/types@0.2.12")?.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut caller: StoreContextMut<'_, GuestState>, (folder,): (Resource<Descriptor>,)| {
            Box::new(async move { outcome(waiting(list(caller.data_mut(), folder)).await) })
        },
    )
}

/// Returns the number of names in a folder.
fn names_in(folder: &File) -> std::io::Result<usize> {
    // The descriptor of a guest may serve for paths only.
    let names = rustix::fs::openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Dir::new(names)?.count())
}

/// Lists a folder. The list holds all names, so they take room in the bound of all guests first.
async fn list(state: &mut GuestState, folder: Resource<Descriptor>) -> FsResult<Resource<ReaddirIterator>> {
    let file = match state.ctx().table.get(&folder)? {
        Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        Descriptor::File(_) => return Err(ErrorCode::NotDirectory.into()),
    };
    let counted = tokio::task::spawn_blocking(move || names_in(&file)).await;
    let names = counted.map_err(|_stopped| ErrorCode::Interrupted)??;
    state.hold_list(names as u64).map_err(|_full| ErrorCode::InsufficientMemory)?;
    WasiFilesystemView::filesystem(state).read_directory(folder).await
}

async fn open(state: &mut GuestState, (folder, follow, path, how, flags): Given) -> FsResult<Resource<Descriptor>> {
    if !descriptors::has_room() {
        return Err(ErrorCode::InsufficientMemory.into());
    }
    let mut files = WasiFilesystemView::filesystem(state);
    let stat = files.stat_at(Resource::new_borrow(folder.rep()), follow, path.clone()).await;
    if stat.is_ok_and(|stat| !is_plain(stat.type_)) {
        return Err(ErrorCode::Access.into());
    }
    files.open_at(folder, follow, path, how, flags).await
}

fn is_plain(kind: DescriptorType) -> bool {
    matches!(kind, DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink)
}

/// Replaces the function of components of WASI 0.3.
pub(crate) fn link_concurrent(linker: &mut Components<GuestState>) -> wasmtime::Result<()> {
    linker.instance("wasi:filesystem/types@0.3.0")?.func_wrap_concurrent(
        "[method]descriptor.open-at",
        |caller: &Accessor<GuestState>, given: GivenConcurrent| {
            Box::pin(async move {
                let files = caller.with_getter::<WasiFilesystem>(WasiFilesystemView::filesystem);
                outcome(open_concurrent(&files, given).await)
            })
        },
    )
}

async fn open_concurrent(
    files: &Accessor<GuestState, WasiFilesystem>,
    (folder, follow, path, how, flags): GivenConcurrent,
) -> wasmtime_wasi::p3::filesystem::FilesystemResult<Resource<Descriptor>> {
    use concurrent::{DescriptorType as Kind, HostDescriptorWithStore};

    if !descriptors::has_room() {
        return Err(concurrent::ErrorCode::InsufficientMemory.into());
    }
    let stat = WasiFilesystem::stat_at(files, Resource::new_borrow(folder.rep()), follow, path.clone()).await;
    if let Ok(stat) = stat
        && !matches!(stat.type_, Kind::RegularFile | Kind::Directory | Kind::SymbolicLink)
    {
        return Err(concurrent::ErrorCode::Access.into());
    }
    WasiFilesystem::open_at(files, folder, follow, path, how, flags).await
}

/// Replaces the function of core modules.
pub(crate) fn link_modules(linker: &mut Modules<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        P1,
        "path_open",
        |mut caller: Caller<'_, GuestState>, given: (i32, i32, i32, i32, i32, i64, i64, i32, i32)| {
            Box::new(waiting(async move {
                let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return Ok(ERRNO_FAULT) };
                // The bound on what one call may copy from the guest.
                let fuel = caller.as_context_mut().hostcall_fuel();
                let (bytes, state) = memory.data_and_store_mut(&mut caller);
                state.wasi_p1().set_hostcall_fuel(fuel);
                open_of_module(state, &mut GuestMemory::Unshared(bytes), given).await
            }))
        },
    )?;
    linker.func_wrap_async(
        P1,
        "fd_readdir",
        |mut caller: Caller<'_, GuestState>, (folder, to, bytes, cookie, place): (i32, i32, i32, i64, i32)| {
            Box::new(waiting(async move {
                let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return Ok(ERRNO_FAULT) };
                let (memory, state) = memory.data_and_store_mut(&mut caller);
                let memory = &mut GuestMemory::Unshared(memory);
                let stat = state.wasi_p1().fd_filestat_get(memory, Fd::from(folder)).await;
                // The call reads all names. This is an estimate: a name takes more room here than in the folder's file.
                let names = stat
                    .map_or(0, |stat| usize::try_from(stat.size).unwrap_or(usize::MAX).saturating_mul(BYTES_OF_LISTED));
                let Ok(_share) = state.share_if_long(names) else { return Ok(ERRNO_NOMEM) };
                let wasi = state.wasi_p1();
                wasi_snapshot_preview1::fd_readdir(wasi, memory, folder, to, bytes, cookie, place).await
            }))
        },
    )?;
    Ok(())
}

async fn open_of_module(
    state: &mut GuestState,
    memory: &mut GuestMemory<'_>,
    (folder, follow, path, path_bytes, how, rights, inherited, flags, place): (
        i32,
        i32,
        i32,
        i32,
        i32,
        i64,
        i64,
        i32,
        i32,
    ),
) -> wasmtime::Result<i32> {
    if !descriptors::has_room() {
        return Ok(ERRNO_MFILE);
    }
    let wasi = state.wasi_p1();
    if let Ok(links) = Lookupflags::try_from(follow) {
        let named = GuestPtr::new((path as u32, path_bytes as u32));
        let stat = wasi.path_filestat_get(memory, Fd::from(folder), links, named).await;
        let is_plain = |kind| matches!(kind, Filetype::RegularFile | Filetype::Directory | Filetype::SymbolicLink);
        if stat.is_ok_and(|stat| !is_plain(stat.filetype)) {
            return Ok(ERRNO_ACCES);
        }
    }
    wasi_snapshot_preview1::path_open(
        wasi, memory, folder, follow, path, path_bytes, how, rights, inherited, flags, place,
    )
    .await
}
