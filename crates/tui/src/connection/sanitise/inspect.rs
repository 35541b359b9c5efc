//! Sanitises what a node says about one process in depth and about causes of failures.

use rusm_protocol::{Causes, EndedInfo, Inspection, MailboxInfo, NamedPid, SupervisedInfo, TreeBranch};

use super::text::{clean, clean_all};

pub(super) fn inspection(inspection: &mut Inspection) {
    clean(&mut inspection.pid);
    if let Some(end) = &mut inspection.ended {
        ended(end);
    }
    if let Some(waits) = &mut inspection.waits {
        clean(&mut waits.on);
        clean_all(&mut waits.subject);
        named(&mut waits.process);
    }
    if let Some(poll) = &mut inspection.poll {
        clean_all([&mut poll.doing, &mut poll.system_call].into_iter().flatten());
    }
    if let Some(backtrace) = &mut inspection.backtrace {
        clean_all(&mut backtrace.frames);
    }
    named(&mut inspection.ancestors);
    clean_all(inspection.names.iter_mut().chain(&mut inspection.groups));
    for page in &mut inspection.bonds {
        clean(&mut page.bond);
        named(&mut page.processes);
    }
    if let Some(info) = &mut inspection.supervised {
        supervised(info);
    }
    if let Some(branch) = &mut inspection.supervises {
        budget(branch);
    }
    if let Some(info) = &mut inspection.mailbox {
        mailbox(info);
    }
}

fn named<'a>(processes: impl IntoIterator<Item = &'a mut NamedPid>) {
    for process in processes {
        clean(&mut process.pid);
        clean_all(&mut process.name);
    }
}

fn supervised(info: &mut SupervisedInfo) {
    named([&mut info.supervisor]);
    clean_all([&mut info.child, &mut info.restart]);
    budget(&mut info.budget);
    for end in &mut info.ends {
        clean(&mut end.reason);
        clean_all(&mut end.pid);
    }
}

fn budget(branch: &mut TreeBranch) {
    clean(&mut branch.strategy);
}

fn mailbox(mailbox: &mut MailboxInfo) {
    named(mailbox.senders.iter_mut().filter_map(|sender| sender.process.as_mut()));
    for message in mailbox.preview.iter_mut().flatten() {
        clean(&mut message.kind);
        clean_all(&mut message.value);
    }
}

fn ended(end: &mut EndedInfo) {
    clean_all([&mut end.future_type, &mut end.reason, &mut end.by]);
    clean_all([&mut end.name, &mut end.by_observer].into_iter().flatten());
    named([&mut end.parent, &mut end.by_process].into_iter().flatten());
}

pub(super) fn causes(causes: &mut Causes) {
    let selected = causes.selected.iter_mut().map(|selected| &mut selected.cause);
    for cause in causes.causes.iter_mut().chain(selected) {
        clean_all([&mut cause.kind, &mut cause.who, &mut cause.why]);
    }
    if let Some(detail) = &mut causes.selected {
        named([&mut detail.process]);
        ended(&mut detail.end);
        clean_all(&mut detail.backtrace);
    }
}
