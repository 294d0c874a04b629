// The C ABI of amalgam's native core: all functions that Python calls.
//
// Written by `make header` from rust/capi/src; do not edit. docs/boundary.rst has the rules
// of all calls. The last argument is an `amalgam_error`, which the call fills unless it
// returns `OK`; null is allowed. Pointers are lent for the call, and null only if the
// length beside them is 0.

// Status of a call. Numbers never change; new ones are added at the end.
typedef enum amalgam_status {
    // Done; outputs are set.
    AMALGAM_STATUS_OK = 0,
    // The request names something that does not exist or is malformed.
    AMALGAM_STATUS_INPUT = 1,
    // Data on disk contradicts itself or its format.
    AMALGAM_STATUS_CORRUPT = 2,
    // Well-formed data of a kind that the core does not handle.
    AMALGAM_STATUS_UNSUPPORTED = 3,
    // Error of the operating system, with its `os_error`.
    AMALGAM_STATUS_IO = 4,
    // Bug in the core or in its caller, usually a panic.
    AMALGAM_STATUS_BUG = 5,
    // Stopped by the report.
    AMALGAM_STATUS_CANCELLED = 6,
    // The repository has changed since the request was made: make the request again.
    AMALGAM_STATUS_MOVED = 7,
} amalgam_status;

// Changegroup, with the bytes that C has not read yet.
typedef struct amalgam_changegroup amalgam_changegroup;

// Open oid map.
typedef struct amalgam_map amalgam_map;

// Index in memory.
typedef struct amalgam_mapped amalgam_mapped;

// An open node map.
typedef struct amalgam_nodemap amalgam_nodemap;

// Error of a call. The caller allocates and frees it, the core writes it.
//
// Texts that are too long are cut; none ends with NUL. After `OK` no field is set.
typedef struct amalgam_error {
    // The `amalgam_status` of the call.
    int32_t status;
    // `errno` of an `IO` status, else 0.
    int32_t os_error;
    // Length of `path`; 0 if the error is not about a file.
    uint32_t path_len;
    // Length of `message`.
    uint32_t message_len;
    // Length of `hint`; may be 0.
    uint32_t hint_len;
    // File name, in the encoding of the file system.
    uint8_t path[4096];
    // Message, in UTF-8: lower case, no full stop.
    uint8_t message[1024];
    // Next step for the user, in UTF-8.
    uint8_t hint[512];
} amalgam_error;

// Report of a call: its `handle`, its `phase`, and `done` of `total`.
//
// `total` is 0 if unknown. Each call documents its phases and their units. Reports come at most
// ten times a second while the call works, on the calling thread only. A nonzero result stops the
// call, which then returns `CANCELLED`. May be null.
typedef int32_t (*amalgam_report_fn)(void *handle, uint32_t phase, uint64_t done, uint64_t total);

// Bytes of an answer of the core. Inputs are passed as pointer and length.
typedef struct amalgam_answer {
    // The first byte.
    const uint8_t *data;
    // Number of bytes.
    size_t len;
} amalgam_answer;

// Run of consecutive revisions in a node map file.
typedef struct amalgam_nodemap_run {
    // Offset in the file, a multiple of 4096.
    uint64_t offset;
    // First revision.
    uint32_t first;
    // Number of revisions, at least one.
    uint32_t revs;
} amalgam_nodemap_run;

// Begins a changegroup. `MOVED` if the changelog has other changesets.
//
// `message` and indexes are as for `amalgam_job_run`. `changesets` are ascending revisions, 4
// bytes each in the byte order of the machine, and `nodes` their nodes. `common` are revisions
// that the receiver has with all their ancestors. With `trusts_links`, `common` is ignored, and
// every revision belongs to the changeset of its linkrev.
//
// # Safety
//
// `error` as everywhere; `out` is writable; `message` is lent for the call; `changelog` and
// `manifest` are not freed before it ends. The changegroup is given to `amalgam_changegroup_free`
// once.
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
// The core makes some megabytes at a time, with threads that end with the call, and keeps the rest
// for the next call. After an error, nothing more can be read. Each call reports at its end, too.
// Phases: 0 changesets, 1 manifests, 2 files.
//
// # Safety
//
// `error` as everywhere; `written` and `buffer` are writable; `report` may be called with `handle`
// until the call ends.
enum amalgam_status amalgam_changegroup_read(size_t *written,
                                             uint8_t *buffer,
                                             size_t buffer_len,
                                             const struct amalgam_changegroup *changegroup,
                                             amalgam_report_fn report,
                                             void *handle,
                                             struct amalgam_error *error);

// Runs the job named by the field `job` of `message`.
//
// The answer is a message, too; it is given to `amalgam_answer_free` once. A field that is
// missing, unknown or of the wrong type is a `BUG` that names it. Descriptors in the message stay
// open until the call ends.
//
// `changelog` and `manifest` are the mapped indexes of the repository, for jobs that read it; null
// if they are not mapped. Each job documents the phases of its report.
//
// # Safety
//
// `error` as everywhere; `answer` is writable; `message` is lent for the call; `changelog` and
// `manifest` are not freed before it ends; `report` may be called with `handle` until then.
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
// `answer` came from a call or is null, and is not used any more.
void amalgam_answer_free(struct amalgam_answer answer);

// Opens a node map, whose file is open as `file`; errors name it `path`.
//
// The file was made with `uid`. It has `runs`, in the order of their revisions, from revision 0
// on, for at least the first `limit` revisions of `index`.
//
// # Safety
//
// `error` as everywhere; `out` is writable; `file` is an open descriptor until the call ends; the
// other arguments are lent for the call. The map is given to `amalgam_nodemap_free` once.
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

// Opens Mercurial's own node map: the first `len_bytes` bytes of the file open as `file`; errors
// name it `path`.
//
// The map has the first `revs` revisions of `index`. It is mapped, or read if `mapped` is 0. Such
// a map finds nodes. It knows neither absent nodes nor abbreviations.
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
// `map` came from an `amalgam_nodemap_open*`, and is not used any more.
void amalgam_nodemap_free(struct amalgam_nodemap *map);

// Returns the revision of a node: -1 for the null node, -2 if it is absent, -3 if the map is
// unusable, -4 if the argument is no node.
//
// Without a map, which is null, the last page of the index is searched; -3 if it lacks the node.
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

// Resolves an abbreviated node of 1 to 40 hexadecimal `digits`.
//
// Returns 1 and writes the node to the 20 bytes at `node` if it is unique, 0 if it is absent, 2 if
// it is ambiguous, -3 if the map is unusable, -4 if the argument has no digits.
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

// Returns the length of the shortest unambiguous abbreviation of a node: -2 if it is absent, -3 if
// the map is unusable, -4 if the argument is no node.
//
// # Safety
//
// As `amalgam_nodemap_rev`.
int32_t amalgam_nodemap_shortest(const struct amalgam_nodemap *map,
                                 const uint8_t *index,
                                 size_t index_len,
                                 const uint8_t *node,
                                 size_t node_len);

// Adds revision `rev`, which was added to the index after the map was opened.
//
// # Safety
//
// `map` as for `amalgam_nodemap_rev`; `node` is lent for the call.
enum amalgam_status amalgam_nodemap_append(const struct amalgam_nodemap *map,
                                           uint32_t rev,
                                           const uint8_t *node,
                                           size_t node_len,
                                           struct amalgam_error *error);

// Removes the revisions from `revs` on.
//
// # Safety
//
// `error` as everywhere; `map` as for `amalgam_nodemap_rev`.
enum amalgam_status amalgam_nodemap_truncate(const struct amalgam_nodemap *map,
                                             uint32_t revs,
                                             struct amalgam_error *error);

// Looks up every node of `index`; `CORRUPT` if one has another revision.
//
// # Safety
//
// `error` as everywhere; `map` as for `amalgam_nodemap_rev`; `index` is lent for the call.
enum amalgam_status amalgam_nodemap_check(const struct amalgam_nodemap *map,
                                          const uint8_t *index,
                                          size_t index_len,
                                          struct amalgam_error *error);

// Writes the length in bytes of a run of `revs` revisions.
//
// # Safety
//
// `error` as everywhere; `len_bytes` is writable.
enum amalgam_status amalgam_nodemap_run_len(uint64_t *len_bytes,
                                            uint32_t revs,
                                            struct amalgam_error *error);

// Writes the content of `run`, in a file made with `uid`, to `bytes`, which has its length.
//
// # Safety
//
// `error` as everywhere; the other arguments are lent for the call.
enum amalgam_status amalgam_nodemap_run_write(uint8_t *bytes,
                                              size_t bytes_len,
                                              const uint8_t *uid,
                                              size_t uid_len,
                                              const struct amalgam_nodemap_run *run,
                                              const uint8_t *index,
                                              size_t index_len,
                                              struct amalgam_error *error);

// Makes the content of Mercurial's own node map file for all entries of `index`.
//
// # Safety
//
// `error` as everywhere; `answer` is writable; `index` is lent for the call. The answer is given
// to `amalgam_answer_free` once.
enum amalgam_status amalgam_nodemap_content(struct amalgam_answer *answer,
                                            const uint8_t *index,
                                            size_t index_len,
                                            struct amalgam_error *error);

// Opens a map.
//
// Fields of `message`: `segments`, file names in `directory`, oldest first; `unmapped`, the
// segments to read instead of mapping them. `directory` is missing if `segments` is empty.
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
// `map` came from `amalgam_map_open`, and is not used any more.
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

// Writes the oid of each of `hg_nodes` in `table` to `oids`; zeros if it is absent, and ones if it is
// a changeset without a commit. All ids have 20 bytes.
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

// Writes the changeset of each commit in `oids` to `hg_nodes`; zeros if it is absent. All ids have
// 20 bytes.
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

// Resolves abbreviated ids. Writes 81 bytes for each of `prefixes` to `matches`: the number of
// changesets (0, 1, or 2 for several), then node and oid of the first two.
//
// `side` is the kind of id: 0 node, 1 oid. A prefix has 21 bytes: an id, and the number of
// hexadecimal digits to compare, 1 to 40.
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

// Checks each segment: its checksum and its order.
//
// # Safety
//
// `error` as everywhere; `map` is not freed before the call ends.
enum amalgam_status amalgam_map_check(const struct amalgam_map *map, struct amalgam_error *error);

// Fills `pairs` with pairs of `table` from position `start` on, and writes their number to
// `written`: 0 at the end.
//
// A pair has 40 bytes, node and oid. Positions are arbitrary and constant while the map is open.
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

// Compares the map `found` with `expected`.
//
// The answer is a message with the differences of each table: `changesets`, `manifests`, `files`.
// A difference has 60 bytes: node, oid found, oid expected; zeros for an absent oid. Phases: 0
// pairs of both maps.
//
// # Safety
//
// `error` as everywhere; `answer` is writable; neither map is freed before the call ends; `report`
// may be called with `handle` until then. The answer is given to `amalgam_answer_free` once.
enum amalgam_status amalgam_map_compare(struct amalgam_answer *answer,
                                        const struct amalgam_map *found,
                                        const struct amalgam_map *expected,
                                        amalgam_report_fn report,
                                        void *handle,
                                        struct amalgam_error *error);

// Loads the first `len` bytes of the index open as `index`, and writes their address to `data`.
//
// The first `covered` bytes are mapped from the file open as `snapshot`, which errors name `path`;
// the others are read. `prefault` is the readahead: 0 none, 1 all in the background, 2 all before
// the call ends. `MOVED` if the files are shorter.
//
// # Safety
//
// `error` as everywhere; `out` and `data` are writable; `path` is lent for the call; `snapshot`
// and `index` are open descriptors until it ends. The index is given to `amalgam_mapped_free`
// once.
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

// Advises the kernel of the next accesses to the bytes from `start` to `end` of an index: 0
// random, 1 all of them, which are then read at once, 2 sequential.
//
// # Safety
//
// `error` as everywhere; `mapped` is not freed before the call ends.
enum amalgam_status amalgam_mapped_expect(const struct amalgam_mapped *mapped,
                                          uint32_t expected,
                                          uint64_t start,
                                          uint64_t end,
                                          struct amalgam_error *error);

// Frees an index with its bytes; null is ignored.
//
// # Safety
//
// `mapped` came from `amalgam_mapped_new`; C does not use it and its bytes any more.
void amalgam_mapped_free(struct amalgam_mapped *mapped);

// Writes the length of the common prefix of a snapshot and an index to `common`.
//
// Compares the first `covered` bytes of the file open as `snapshot`, which errors name `path`, and
// the first `len` of the file open as `index`.
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
