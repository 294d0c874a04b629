// The C ABI of amalgam's native core: what Python may call, and nothing else.
//
// Written by `make header` from rust/capi/src; do not edit. The rules that every call
// follows are in docs/boundary.rst: a call takes, last, the `amalgam_error` that it fills
// when it answers anything but `OK` (null if the caller does not care); pointers are lent
// for the call, and null only where the length beside them is 0.

// How a call ended. Numbers are given for ever; new ones are added at the end.
typedef enum amalgam_status {
    // Done; outputs are set.
    AMALGAM_STATUS_OK = 0,
    // The caller asked for something that does not exist or makes no sense.
    AMALGAM_STATUS_INPUT = 1,
    // Data on disk contradicts itself or its format.
    AMALGAM_STATUS_CORRUPT = 2,
    // Well-formed, but of a kind that the core does not handle.
    AMALGAM_STATUS_UNSUPPORTED = 3,
    // The operating system refused; `os_error` says why.
    AMALGAM_STATUS_IO = 4,
    // A mistake in the core, usually a panic.
    AMALGAM_STATUS_BUG = 5,
    // A report asked to stop.
    AMALGAM_STATUS_CANCELLED = 6,
    // What the caller described is no longer so; look again and call again.
    AMALGAM_STATUS_MOVED = 7,
} amalgam_status;

// A changegroup, and what of it was made and not yet read.
typedef struct amalgam_changegroup amalgam_changegroup;

// An open oid map.
typedef struct amalgam_map amalgam_map;

// An index in memory.
typedef struct amalgam_mapped amalgam_mapped;

// An open node map.
typedef struct amalgam_nodemap amalgam_nodemap;

// Why a call did not answer `OK`. Made by the caller, written by the core, freed by the caller.
//
// Texts that are too long are cut; none ends with NUL. After `OK` nothing in it is set.
typedef struct amalgam_error {
    // The `amalgam_status` of the call.
    int32_t status;
    // `errno` of an `IO` status, 0 when there is none.
    int32_t os_error;
    // Length of `path`, 0 if no file is concerned.
    uint32_t path_len;
    // Length of `message`.
    uint32_t message_len;
    // Length of `hint`, 0 if there is none.
    uint32_t hint_len;
    // The file concerned, as the file system spells it.
    uint8_t path[4096];
    // What was found, in UTF-8: lower case, no full stop.
    uint8_t message[1024];
    // What to try next, in UTF-8.
    uint8_t hint[512];
} amalgam_error;

// Called with the `handle` of the call, the `phase` it is in, and `done` of `total`.
//
// `total` is 0 when it is not known. Each call documents its phases and their units. Comes at
// most ten times a second, only on the thread that made the call. A nonzero answer asks the
// core to stop: the call then answers `CANCELLED`. May be null.
typedef int32_t (*amalgam_report_fn)(void *handle, uint32_t phase, uint64_t done, uint64_t total);

// Bytes that the core answers. Inputs are passed as pointer and length.
typedef struct amalgam_answer {
    // The first byte.
    const uint8_t *data;
    // Number of bytes.
    size_t len;
} amalgam_answer;

// A run: consecutive revisions in a file of the node map.
typedef struct amalgam_nodemap_run {
    // Its first byte in the file, a multiple of 4096.
    uint64_t offset;
    // Its first revision.
    uint32_t first;
    // How many revisions, at least one.
    uint32_t revs;
} amalgam_nodemap_run;

// Begins a changegroup. `MOVED` if the repository has not these changesets.
//
// `message` and indexes are as for `amalgam_job_run`. `changesets` are numbers of 4 bytes in the byte order of the
// machine, ascending, `nodes` their nodes. `common` are numbers of changesets that the receiver has, with all
// their ancestors; not used if `trusts_links`: then every revision belongs to the changeset that its link names.
//
// # Safety
//
// `error` as everywhere; `out` is writable; `message` is lent for the call; `changelog` and `manifest` are not
// freed before it ends. The changegroup is given to `amalgam_changegroup_free` once.
enum amalgam_status amalgam_changegroup_open(struct amalgam_changegroup **out,
                                             const uint8_t *message,
                                             size_t message_len,
                                             const struct amalgam_mapped *changelog,
                                             const struct amalgam_mapped *manifest,
                                             struct amalgam_error *error);

// Frees a changegroup; null is ignored.
//
// # Safety
//
// `changegroup` came from `amalgam_changegroup_open` or is null, and is not used any more.
void amalgam_changegroup_free(struct amalgam_changegroup *changegroup);

// Writes the next bytes to `buffer`, and their number to `written`: 0 at the end.
//
// The core makes some megabytes at a time, with threads that end with the call, and keeps the rest for the next
// call. After an error there is no more to read. Each call reports at its end, too. Phases: 0 changesets,
// 1 manifests, 2 files.
//
// # Safety
//
// `error` as everywhere; `written` and `buffer` are writable; `report` may be called with `handle` until
// the call ends.
enum amalgam_status amalgam_changegroup_read(size_t *written,
                                             uint8_t *buffer,
                                             size_t buffer_len,
                                             const struct amalgam_changegroup *changegroup,
                                             amalgam_report_fn report,
                                             void *handle,
                                             struct amalgam_error *error);

// Runs the job that the field `job` of `message` names.
//
// The answer is a message, too; it is given to `amalgam_answer_free` once. A field that is missing, unknown or
// of the wrong type is a `BUG` that names it. Descriptors in the message stay open until the call ends.
//
// `changelog` and `manifest` are indexes of the repository that are mapped, for jobs that read it: the core
// makes no copy of them. Null otherwise. Phases of the report: those of the job.
//
// # Safety
//
// `error` as everywhere; `answer` is writable; `message` is lent for the call; `changelog` and `manifest` are
// not freed before it ends; `report` may be called with `handle` until then.
enum amalgam_status amalgam_job_run(struct amalgam_answer *answer,
                                    const uint8_t *message,
                                    size_t message_len,
                                    const struct amalgam_mapped *changelog,
                                    const struct amalgam_mapped *manifest,
                                    amalgam_report_fn report,
                                    void *handle,
                                    struct amalgam_error *error);

// Frees an answer; null is ignored.
//
// # Safety
//
// `answer` was answered by a call or is null, and is not used any more.
void amalgam_answer_free(struct amalgam_answer answer);

// Opens the map in the file open as `file`, which `path` names in messages. It was made with `uid`
// of the first `limit` revisions of `index`, or of more, and of `runs`, in the order of their
// revisions, from 0 on.
//
// # Safety
//
// `error` as everywhere; `out` is writable; `file` is an open descriptor until the call ends; all
// else is lent for the call. The map is given to `amalgam_nodemap_free` once.
enum amalgam_status amalgam_nodemap_open(struct amalgam_nodemap **out,
                                         int32_t file,
                                         const uint8_t *path,
                                         size_t path_len,
                                         const uint8_t *uid,
                                         size_t uid_len,
                                         const struct amalgam_nodemap_run *runs,
                                         size_t runs_len,
                                         uint32_t limit,
                                         const uint8_t *index,
                                         size_t index_len,
                                         struct amalgam_error *error);

// Opens Mercurial's own map: the first `len_bytes` bytes of the file open as `file`, which `path`
// names in messages. It has the first `revs` revisions of `index`. If `mapped` is 0 it is read. Such
// a map finds nodes. That there is no such node it cannot tell, nor what abbreviations mean.
//
// # Safety
//
// As `amalgam_nodemap_open`.
enum amalgam_status amalgam_nodemap_open_upstream(struct amalgam_nodemap **out,
                                                  int32_t file,
                                                  const uint8_t *path,
                                                  size_t path_len,
                                                  uint64_t len_bytes,
                                                  uint32_t revs,
                                                  int32_t mapped,
                                                  const uint8_t *index,
                                                  size_t index_len,
                                                  struct amalgam_error *error);

// Frees a map; null is ignored.
//
// # Safety
//
// `map` came from an `amalgam_nodemap_open*`, and nobody uses it any more.
void amalgam_nodemap_free(struct amalgam_nodemap *map);

// The revision of a node, -1 for the null node; -2 if there is none, -3 if the map cannot
// tell, -4 if that is no node.
//
// # Safety
//
// `map` is null or came from an `amalgam_nodemap_open*`, and is not freed before the call ends;
// `index` and `node` are lent for the call.
int32_t amalgam_nodemap_rev(const struct amalgam_nodemap *map,
                            const uint8_t *index,
                            size_t index_len,
                            const uint8_t *node,
                            size_t node_len);

// What 1 to 40 hexadecimal `digits` mean: 1 if it is the node that is written to the 20 bytes at
// `node`, 0 if there is none, 2 if there are more, -3 if the map cannot tell,
// -4 if these are no digits.
//
// # Safety
//
// As `amalgam_nodemap_rev`; `node` is lent for the call.
int32_t amalgam_nodemap_match(uint8_t *node,
                              size_t node_len,
                              const struct amalgam_nodemap *map,
                              const uint8_t *index,
                              size_t index_len,
                              const uint8_t *digits,
                              size_t digits_len);

// How many digits of a node mean it and no other; -2 if there is no such node, -3 if the map
// cannot tell, -4 if that is no node.
//
// # Safety
//
// As `amalgam_nodemap_rev`.
int32_t amalgam_nodemap_shortest(const struct amalgam_nodemap *map,
                                 const uint8_t *index,
                                 size_t index_len,
                                 const uint8_t *node,
                                 size_t node_len);

// Adds revision `rev`, which is not among those of the index that were there at the opening.
//
// # Safety
//
// `map` as for `amalgam_nodemap_rev`; `node` is lent for the call.
enum amalgam_status amalgam_nodemap_append(const struct amalgam_nodemap *map,
                                           uint32_t rev,
                                           const uint8_t *node,
                                           size_t node_len,
                                           struct amalgam_error *error);

// Forgets the revisions from `revs` on.
//
// # Safety
//
// `error` as everywhere; `map` as for `amalgam_nodemap_rev`.
enum amalgam_status amalgam_nodemap_truncate(const struct amalgam_nodemap *map,
                                             uint32_t revs,
                                             struct amalgam_error *error);

// Looks up every revision of `index`; `CORRUPT` if one is not found as what it is.
//
// # Safety
//
// `error` as everywhere; `map` as for `amalgam_nodemap_rev`; `index` is lent for the call.
enum amalgam_status amalgam_nodemap_check(const struct amalgam_nodemap *map,
                                          const uint8_t *index,
                                          size_t index_len,
                                          struct amalgam_error *error);

// Writes how many bytes a run of `revs` revisions has in the file.
//
// # Safety
//
// `error` as everywhere; `len_bytes` is writable.
enum amalgam_status amalgam_nodemap_run_len(uint64_t *len_bytes,
                                            uint32_t revs,
                                            struct amalgam_error *error);

// Writes `run` of a file made with `uid`, of the nodes in `index`, to `bytes`, which has its
// length.
//
// # Safety
//
// `error` as everywhere; all else is lent for the call.
enum amalgam_status amalgam_nodemap_run_write(uint8_t *bytes,
                                              size_t bytes_len,
                                              const uint8_t *uid,
                                              size_t uid_len,
                                              const struct amalgam_nodemap_run *run,
                                              const uint8_t *index,
                                              size_t index_len,
                                              struct amalgam_error *error);

// Answers the content of a file of Mercurial's own node map, of all entries in `index`.
//
// # Safety
//
// `error` as everywhere; `answer` is writable; `index` is lent for the call. The answer is given to
// `amalgam_answer_free` once.
enum amalgam_status amalgam_nodemap_content(struct amalgam_answer *answer,
                                            const uint8_t *index,
                                            size_t index_len,
                                            struct amalgam_error *error);

// Opens the map made of `segments`, file names in `directory`, oldest first.
//
// `message` has these fields, and `unmapped`: segments that are read instead of mapped. Without segments there
// is no `directory`.
//
// # Safety
//
// `error` as everywhere; `out` is writable; `message` is lent for the call. The map is given to
// `amalgam_map_free` once.
enum amalgam_status amalgam_map_open(struct amalgam_map **out,
                                     const uint8_t *message,
                                     size_t message_len,
                                     struct amalgam_error *error);

// Frees a map; null is ignored.
//
// # Safety
//
// `map` came from `amalgam_map_open`, and nobody uses it any more.
void amalgam_map_free(struct amalgam_map *map);

// Writes the number of pairs in `table`: 0 changesets, 1 manifests, 2 file revisions.
//
// # Safety
//
// `error` as everywhere; `count` is writable; `map` is not freed before the call ends.
enum amalgam_status amalgam_map_count(uint64_t *count,
                                      const struct amalgam_map *map,
                                      uint32_t table,
                                      struct amalgam_error *error);

// Writes to `oids` the oid of each of `hg_nodes` in `table`, zeros where there is none; 20 bytes
// each on both sides.
//
// # Safety
//
// `error` as everywhere; `oids` and `hg_nodes` are lent for the call; `map` is not freed before
// it ends.
enum amalgam_status amalgam_map_oids(uint8_t *oids,
                                     size_t oids_len,
                                     const struct amalgam_map *map,
                                     uint32_t table,
                                     const uint8_t *hg_nodes,
                                     size_t hg_nodes_len,
                                     struct amalgam_error *error);

// Writes to `hg_nodes` the changeset of each commit in `oids`, zeros where there is none; 20
// bytes each on both sides.
//
// # Safety
//
// As `amalgam_map_oids`.
enum amalgam_status amalgam_map_changesets(uint8_t *hg_nodes,
                                           size_t hg_nodes_len,
                                           const struct amalgam_map *map,
                                           const uint8_t *oids,
                                           size_t oids_len,
                                           struct amalgam_error *error);

// Writes to `matches`, 81 bytes for each of `prefixes`, what an abbreviated id stands for: the
// number of changesets found (0, 1, or 2 for several), then node and oid of the first two.
//
// `side` says of which id they are the beginning: 0 of changesets, 1 of commits. A prefix is 21
// bytes: 20 of an id, and how many of their hexadecimal digits count, 1 to 40.
//
// # Safety
//
// As `amalgam_map_oids`.
enum amalgam_status amalgam_map_match(uint8_t *matches,
                                      size_t matches_len,
                                      const struct amalgam_map *map,
                                      uint32_t side,
                                      const uint8_t *prefixes,
                                      size_t prefixes_len,
                                      struct amalgam_error *error);

// Checks each segment whole: its checksum, and that what is sorted is sorted.
//
// # Safety
//
// `error` as everywhere; `map` is not freed before the call ends.
enum amalgam_status amalgam_map_check(const struct amalgam_map *map, struct amalgam_error *error);

// Writes to `pairs` those of `table` from position `start` on, as many as there is room for, and
// their number to `written`: 0 after the last. A pair is 40 bytes, node and oid. Positions are
// those of no order that means anything, but they stay the same as long as the map is open.
//
// # Safety
//
// `error` as everywhere; `pairs` is lent for the call, `written` writable; `map` is not freed
// before the call ends.
enum amalgam_status amalgam_map_pairs(uint8_t *pairs,
                                      size_t pairs_len,
                                      uint64_t *written,
                                      const struct amalgam_map *map,
                                      uint32_t table,
                                      uint64_t start,
                                      struct amalgam_error *error);

// Answers a segment with some of the pairs of `map`.
//
// `message` has the nodes of each table, `changesets`, `manifests` and `files`. The segment has the pairs of these
// nodes, or, if `is_kept` is 0, all others.
//
// # Safety
//
// `error` as everywhere; `answer` is writable; `message` is lent for the call; `map` is not freed before it ends.
// The answer is given to `amalgam_answer_free` once.
enum amalgam_status amalgam_map_sift(struct amalgam_answer *answer,
                                     const struct amalgam_map *map,
                                     const uint8_t *message,
                                     size_t message_len,
                                     struct amalgam_error *error);

// Compares the map `found` with `expected`.
//
// The answer is a message with the differences of each table: `changesets`, `manifests`, `files`. A difference is 60
// bytes: node, oid found, oid expected, zeros where there is none. Phases of the report: 0 pairs of both maps.
//
// # Safety
//
// `error` as everywhere; `answer` is writable; neither map is freed before the call ends; `report` may be called
// with `handle` until then. The answer is given to `amalgam_answer_free` once.
enum amalgam_status amalgam_map_compare(struct amalgam_answer *answer,
                                        const struct amalgam_map *found,
                                        const struct amalgam_map *expected,
                                        amalgam_report_fn report,
                                        void *handle,
                                        struct amalgam_error *error);

// Brings the first `len` bytes of the index open as `index` into memory, and writes to `data`
// where they are.
//
// The first `covered` of them are mapped from the file open as `snapshot`, which `path` names in
// messages; the others are read. `prefault` says what to read ahead: 0 nothing, 1 all in the
// background, 2 all before the call ends. `MOVED` if the files are not as was said.
//
// # Safety
//
// `error` as everywhere; `out` and `data` are writable; `path` is lent for the call; `snapshot`
// and `index` are open descriptors until it ends. The index is given to `amalgam_mapped_free` once.
enum amalgam_status amalgam_mapped_new(struct amalgam_mapped **out,
                                       const uint8_t **data,
                                       int32_t snapshot,
                                       const uint8_t *path,
                                       size_t path_len,
                                       uint64_t covered,
                                       int32_t index,
                                       uint64_t len,
                                       uint32_t prefault,
                                       struct amalgam_error *error);

// Tells the kernel what of the bytes from `start` to `end` of an index is about to be touched: 0 a
// few places, 1 all of them, which it then reads at once, 2 stretches.
//
// # Safety
//
// `error` as everywhere; `mapped` is not freed before the call ends.
enum amalgam_status amalgam_mapped_expect(const struct amalgam_mapped *mapped,
                                          uint32_t expected,
                                          uint64_t start,
                                          uint64_t end,
                                          struct amalgam_error *error);

// Frees an index, and the memory that `amalgam_mapped_new` named; null is ignored.
//
// # Safety
//
// `mapped` came from `amalgam_mapped_new`, and nobody of C uses it nor its bytes any more.
void amalgam_mapped_free(struct amalgam_mapped *mapped);

// Writes to `common` in how many bytes, of its first `covered`, the snapshot open as `snapshot`,
// which `path` names in messages, agrees with the first `len` of the index open as `index`.
//
// # Safety
//
// `error` as everywhere; `common` is writable; `path` is lent for the call; `snapshot` and
// `index` are open descriptors until it ends.
enum amalgam_status amalgam_snapshot_common(uint64_t *common,
                                            int32_t snapshot,
                                            const uint8_t *path,
                                            size_t path_len,
                                            uint64_t covered,
                                            int32_t index,
                                            uint64_t len,
                                            struct amalgam_error *error);
