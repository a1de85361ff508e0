//! The contract, and what `fifo(7)` adds to it, kept by FIFOs: the kernel's, ours, and those that the two share.

use millstream_conformance::fifo::{Between, Ours, Plain};

mod kernel {
    millstream_conformance::contract!(processes: crate::Between<crate::Plain, crate::Plain>);

    mod opening {
        millstream_conformance::opening!(crate::Plain, crate::Plain);
    }
}

mod ours {
    millstream_conformance::contract!(processes: crate::Between<crate::Ours, crate::Ours>);

    mod opening {
        millstream_conformance::opening!(crate::Ours, crate::Ours);
    }
}

mod ours_to_plain {
    millstream_conformance::contract!(processes: crate::Between<crate::Ours, crate::Plain>);

    mod opening {
        millstream_conformance::opening!(crate::Ours, crate::Plain);
    }
}

mod plain_to_ours {
    millstream_conformance::contract!(processes: crate::Between<crate::Plain, crate::Ours>);

    mod opening {
        millstream_conformance::opening!(crate::Plain, crate::Ours);
    }
}
