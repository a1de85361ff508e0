//! Stages that are pushed on a file and popped while programs have it open.

use std::sync::{Arc, MutexGuard, PoisonError};

use fuser::INodeNo;
use rustix::io::Errno;

use crate::content::Content;
use crate::line::{SizeFrom, WriteNetwork};
use crate::mounted::Mounted;
use crate::names::is_file;
use crate::nodes::Node;
use crate::source::Result;
use crate::view::View;

impl Mounted {
    /// Puts a further stage between a file and the programs.
    pub(crate) fn push(&self, node: &Node, stage: &str) -> Result<()> {
        if !is_file(&node.source().stat()?) {
            return Err(Errno::INVAL);
        }
        if node.backing.lock().is_ok_and(|backing| backing.strong_count() > 0) {
            // The kernel would go on to give programs the bytes of the source.
            return Err(Errno::BUSY);
        }
        let before = match node.content() {
            Some(content) => Arc::clone(content.view()),
            None => Arc::new(plain_view().map_err(|_| Errno::INVAL)?),
        };
        let view = before.pushed(stage).map_err(|_| Errno::INVAL)?;
        self.set_view(node, Arc::new(view))?;
        before_pushes(node).push(before);
        Ok(())
    }

    /// Takes the stage away that was pushed last.
    pub(crate) fn pop(&self, node: &Node) -> Result<()> {
        let before = before_pushes(node).pop().ok_or(Errno::NODATA)?;
        self.set_view(node, before)
    }

    fn set_view(&self, node: &Node, view: Arc<View>) -> Result<()> {
        let mut changes = 0;
        if let Some(content) = node.content() {
            self.replaced(node, content.commit(&node.source(), false)?);
            changes = content.changes();
        }
        let name = node.source().path().unwrap_or_default();
        node.set_content(Content::new(view, Arc::clone(&self.common), name, changes));
        // Not from this thread: the kernel may be waiting for it while it drops the pages.
        if let Some(notifier) = self.notifier.get().cloned() {
            let ino = INodeNo(node.id);
            let _ = std::thread::Builder::new().spawn(move || notifier.inval_inode(ino, 0, 0));
        }
        Ok(())
    }
}

fn before_pushes(node: &Node) -> MutexGuard<'_, Vec<Arc<View>>> {
    node.before_pushes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plain_view() -> std::result::Result<View, String> {
    View::new(crate::line::network("identity")?, WriteNetwork::Inverse, SizeFrom::Scan)
}
