//! Figures of earlier studies, on other hardware, for the tables and the page to show beside ours. Only the shape can be
//! compared. Each was measured by the study that is named; none comes from a published list of results of lmbench.

/// One table of a study.
pub(crate) struct Study {
    /// The method of ours that it is shown beside.
    pub(crate) method: &'static str,
    /// What was measured, when, and in which unit.
    pub(crate) title: &'static str,
    /// What it was measured on, as far as is known.
    pub(crate) hardware: &'static str,
    /// Whether the figures are improvements in percent by transfer size, which ours can stand beside: on how many CPUs.
    pub(crate) ours: &'static [&'static str],
    /// What stands above the columns; the first is that of the labels.
    pub(crate) columns: &'static [&'static str],
    /// Labels and figures.
    pub(crate) rows: &'static [Row],
}

/// A label and its figures.
pub(crate) type Row = (&'static str, &'static [f64]);

/// Improvement in percent over its own kernel's pipe, grep over 50 MB, as a study of three Linux 2.5 pipe patches of 2002
/// reported it: a larger pipe of 32 KiB, single copy, both together.
pub(crate) fn grep(workload: &str, placement: &str) -> [Option<i32>; 3] {
    match (workload, placement) {
        ("grep", "2cpu") => [165, 40, 203].map(Some),
        ("grep", "1cpu") => [-3, -53, -3].map(Some),
        _ => [None; 3],
    }
}

/// The same for a row of the study's Table 1: a method, and a transfer size where the method has sizes.
pub(crate) fn table_1(method: &str, transfer: &str, placement: &str) -> Option<[f64; 3]> {
    let column = ["2cpu", "1cpu"].iter().position(|&known| known == placement)?;
    let study = studies(method).next().filter(|study| study.ours == ["2cpu", "1cpu"])?;
    let (_, figures) = study.rows.iter().find(|(label, _)| transfer.is_empty() || *label == transfer)?;
    figures.get(3 * column..)?.first_chunk().copied()
}

/// Those beside a method.
pub(crate) fn studies(method: &str) -> impl Iterator<Item = &'static Study> {
    STUDIES.iter().filter(move |study| study.method == method)
}

/// LP, ZC, LP+ZC: the larger-pipe, single-copy and combined patches.
#[rustfmt::skip]
static STUDIES: &[Study] = &[
    Study {
        method: "grep",
        title: "Three kernel patches, improvement in % over the same kernel without them",
        hardware: "Linux 2.5, 2 CPUs or a kernel for one CPU, 2002",
        ours: &["2cpu", "1cpu"],
        columns: &["", "2 CPUs: LP", "ZC", "LP+ZC", "1 CPU: LP", "ZC", "LP+ZC"],
        rows: &[
            ("grep over 50 MB", &[165.0, 40.0, 203.0, -3.0, -53.0, -3.0]),
        ],
    },
    Study {
        method: "grep",
        title: "The same with the larger pipe of 4 KiB instead of 32, in %",
        hardware: "Linux 2.5, 2 CPUs or a kernel for one CPU, 2002",
        ours: &["1cpu"],
        columns: &["", "1 CPU: LP 4 KiB", "ZC", "LP+ZC"],
        rows: &[
            ("grep over 50 MB", &[1.61, -53.0, -53.0]),
        ],
    },
    Study {
        method: "bw_pipe",
        title: "Three kernel patches, improvement in % over the same kernel without them",
        hardware: "Linux 2.5, 2 CPUs or a kernel for one CPU, 2002",
        ours: &["2cpu", "1cpu"],
        columns: &["transfer", "2 CPUs: LP", "ZC", "LP+ZC", "1 CPU: LP", "ZC", "LP+ZC"],
        rows: &[
            ("2k", &[4.0, 54.0, 102.0, -18.0, 16.0, -10.0]),
            ("4k", &[19.0, 21.0, 133.0, -27.0, 21.0, -8.0]),
            ("6k", &[50.0, 70.0, 89.0, -23.0, 73.0, -42.0]),
            ("8k", &[-1.0, 64.0, 55.0, -31.0, 30.0, -62.0]),
            ("12k", &[-13.0, 38.0, 8.0, -36.0, 14.0, -23.0]),
            ("16k", &[-16.0, 38.0, 6.0, -34.0, 17.0, -24.0]),
            ("24k", &[-24.0, 31.0, 6.0, -35.0, 22.0, -14.0]),
            ("32k", &[-26.0, 27.0, 1.0, -33.0, 25.0, -13.0]),
            ("64k", &[-24.0, 23.0, 23.0, -35.0, 27.0, 26.0]),
            ("128k", &[-23.0, 30.0, 27.0, -36.0, 41.0, 28.0]),
        ],
    },
    Study {
        method: "bw_pipe",
        title: "The same with the larger pipe of 4 KiB instead of 32, in %",
        hardware: "Linux 2.5, 2 CPUs or a kernel for one CPU, 2002",
        ours: &["1cpu"],
        columns: &["transfer", "1 CPU: LP 4 KiB", "ZC", "LP+ZC"],
        rows: &[
            ("2k", &[-2.58, 16.0, 2.0]),
            ("4k", &[-2.47, 21.0, 23.0]),
            ("6k", &[0.21, 73.0, 63.0]),
            ("8k", &[5.98, 30.0, 20.0]),
            ("12k", &[-0.9, 14.0, 12.0]),
            ("16k", &[-0.43, 17.0, 16.0]),
            ("24k", &[0.12, 22.0, 21.0]),
            ("32k", &[0.98, 25.0, 24.0]),
            ("64k", &[0.07, 27.0, 46.0]),
            ("128k", &[-1.17, 41.0, 40.0]),
        ],
    },
    Study {
        method: "bw_pipe",
        title: "A rewritten kernel pipe, MB/s",
        hardware: "NetBSD, 2001",
        ours: &[],
        columns: &["", "old pipe", "new pipe", "lending pages"],
        rows: &[
            ("Pentium III 600 MHz", &[487.0, 487.0, 567.0]),
            ("386DX", &[0.75, 3.57, 4.7]),
        ],
    },
    Study {
        method: "bw_pipe",
        title: "Bandwidth of a pipe, MB/s",
        hardware: "The machines named, 1990s",
        ours: &[],
        columns: &["", "pipe"],
        rows: &[
            ("FreeBSD/i586 (P5-90)", &[10.72]),
            ("DEC Alpha", &[41.06]),
            ("HP 9000/735", &[30.37]),
            ("IBM RS6000", &[16.91]),
            ("Sun SS10", &[17.04]),
            ("SGI IRIX", &[15.67]),
        ],
    },
    Study {
        method: "bw_tcp",
        title: "Bandwidth of TCP, MB/s",
        hardware: "The machines named, 1990s",
        ours: &[],
        columns: &["", "same host", "two hosts"],
        rows: &[
            ("FreeBSD/i586 (P5-90), 10base2", &[0.21, 0.76]),
            ("FreeBSD/i586 (P5-90), 100baseT", &[5.96, 6.26]),
            ("DEC Alpha, FDDI", &[13.1, 9.76]),
            ("HP 9000/735, FDDI", &[29.06, 9.02]),
            ("IBM RS6000, FDDI", &[2.91, 4.54]),
            ("Sun SS10, FDDI", &[4.68, 0.76]),
            ("SGI IRIX, FDDI", &[12.98, 1.35]),
        ],
    },
    Study {
        method: "bw_file_rd",
        title: "Re-reading a cached file of 8 MB, MB/s",
        hardware: "The machines named, 1990s",
        ours: &[],
        columns: &["", "read"],
        rows: &[
            ("FreeBSD/i586 (P5-90)", &[18.28]),
            ("DEC Alpha", &[42.47]),
            ("HP 9000/735", &[33.71]),
            ("IBM RS6000", &[32.45]),
            ("Sun SS10", &[36.62]),
            ("SGI IRIX", &[19.6]),
        ],
    },
    Study {
        method: "bw_mmap_rd",
        title: "Summing a mapped file of 8 MB, MB/s",
        hardware: "The machines named, 1990s",
        ours: &[],
        columns: &["", "mmap"],
        rows: &[
            ("FreeBSD/i586 (P5-90)", &[36.75]),
            ("DEC Alpha", &[55.01]),
            ("HP 9000/735", &[35.76]),
            ("IBM RS6000", &[36.23]),
            ("Sun SS10", &[21.18]),
            ("SGI IRIX", &[26.06]),
        ],
    },
    Study {
        method: "lat_mem_rd",
        title: "Latency of main memory, ns, stride 8192 bytes",
        hardware: "The machines named, 1990s",
        ours: &[],
        columns: &["", "latency"],
        rows: &[
            ("FreeBSD/i586 (P5-90)", &[645.0]),
            ("DEC Alpha", &[458.0]),
            ("HP 9000/735", &[430.0]),
            ("IBM RS6000", &[2146.0]),
            ("Sun SS10", &[801.0]),
            ("SGI IRIX", &[1723.0]),
        ],
    },
    Study {
        method: "pipeflex",
        title: "Three kernel patches, improvement in % over the same kernel without them",
        hardware: "Linux 2.5, 2 CPUs or a kernel for one CPU, 2002",
        ours: &["2cpu", "1cpu"],
        columns: &["transfer", "2 CPUs: LP", "ZC", "LP+ZC", "1 CPU: LP", "ZC", "LP+ZC"],
        rows: &[
            ("2k", &[0.0, -24.0, -2.0, -1.0, -24.0, -5.0]),
            ("4k", &[0.0, -42.0, -5.0, -2.0, -42.0, -11.0]),
            ("6k", &[10.0, -11.0, 11.0, -4.0, -23.0, -11.0]),
            ("8k", &[46.0, -16.0, 24.0, -7.0, -41.0, -20.0]),
            ("12k", &[93.0, -15.0, 95.0, -6.0, -57.0, -14.0]),
            ("16k", &[163.0, -14.0, 97.0, -6.0, -65.0, -31.0]),
            ("24k", &[183.0, -16.0, 174.0, -7.0, -74.0, -31.0]),
            ("32k", &[359.0, -18.0, 167.0, -8.0, -79.0, -43.0]),
            ("64k", &[276.0, -15.0, 338.0, -7.0, -85.0, -39.0]),
            ("128k", &[292.0, -15.0, 279.0, -4.0, -88.0, -48.0]),
        ],
    },
    Study {
        method: "pipeflex",
        title: "The same with the larger pipe of 4 KiB instead of 32, in %",
        hardware: "Linux 2.5, 2 CPUs or a kernel for one CPU, 2002",
        ours: &["1cpu"],
        columns: &["transfer", "1 CPU: LP 4 KiB", "ZC", "LP+ZC"],
        rows: &[
            ("2k", &[-0.27, -24.0, -24.0]),
            ("4k", &[0.0, -42.0, -4.0]),
            ("6k", &[0.94, -23.0, -24.0]),
            ("8k", &[-0.14, -41.0, -42.0]),
            ("12k", &[0.11, -57.0, -57.0]),
            ("16k", &[-0.42, -65.0, -66.0]),
            ("24k", &[-0.63, -74.0, -74.0]),
            ("32k", &[0.05, -79.0, -79.0]),
            ("64k", &[-1.28, -85.0, -85.0]),
            ("128k", &[-1.64, -88.0, -87.0]),
        ],
    },
    Study {
        method: "fifo_grid",
        title: "A FIFO on the kernel's pipe, \u{b5}s, means of 100 runs",
        hardware: "FreeBSD 8.0-CURRENT, Core 2 Quad 9400, 4 GB, 2009",
        ours: &[],
        columns: &["size", "100 messages", "1000", "5000", "10000", "100000"],
        rows: &[
            ("64", &[274.0, 148.0, 418.0, 753.0, 8909.0]),
            ("128", &[89.0, 216.0, 769.0, 1545.0, 17729.0]),
            ("256", &[106.0, 353.0, 1530.0, 3700.0, 35265.0]),
            ("512", &[138.0, 595.0, 3709.0, 7310.0, 70396.0]),
            ("1024", &[184.0, 1183.0, 7300.0, 14103.0, 141104.0]),
            ("2048", &[295.0, 2696.0, 13929.0, 29296.0, 309294.0]),
            ("4096", &[502.0, 5988.0, 29094.0, 58351.0, 583801.0]),
        ],
    },
    Study {
        method: "fifo_grid",
        title: "A FIFO on the kernel's socket, \u{b5}s, means of 100 runs",
        hardware: "FreeBSD 8.0-CURRENT, Core 2 Quad 9400, 4 GB, 2009",
        ours: &[],
        columns: &["size", "100 messages", "1000", "5000", "10000", "100000"],
        rows: &[
            ("64", &[85.0, 175.0, 584.0, 1126.0, 11905.0]),
            ("128", &[96.0, 280.0, 1128.0, 2171.0, 23427.0]),
            ("256", &[119.0, 484.0, 2170.0, 4559.0, 53267.0]),
            ("512", &[159.0, 891.0, 4645.0, 9276.0, 109152.0]),
            ("1024", &[239.0, 1732.0, 9554.0, 18825.0, 222931.0]),
            ("2048", &[403.0, 3552.0, 18939.0, 38081.0, 451727.0]),
            ("4096", &[723.0, 7546.0, 39151.0, 83753.0, 905902.0]),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_figure_for_each_column() {
        for study in STUDIES {
            for (label, figures) in study.rows {
                assert_eq!(figures.len() + 1, study.columns.len(), "{label} of {}", study.title);
            }
        }
        assert_eq!(table_1("pipeflex", "32k", "1cpu"), Some([-8.0, -79.0, -43.0]));
        assert_eq!(table_1("bw_pipe", "2k", "2cpu"), Some([4.0, 54.0, 102.0]));
        assert_eq!(table_1("grep", "", "2cpu"), Some([165.0, 40.0, 203.0]));
        assert!(table_1("bw_pipe", "3k", "2cpu").or(table_1("memcpy", "2k", "2cpu")).is_none());
        assert!(studies("bw_pipe").count() >= 3 && studies("nothing").count() == 0);
    }
}
