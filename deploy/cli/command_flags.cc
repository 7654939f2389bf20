#include "deploy/cli/command_flags.h"

namespace capstan {
namespace {

// Headings of the flags of `capstan run`.
constexpr absl::string_view kWhatRuns = "What runs";
constexpr absl::string_view kWrites = "What is written";
constexpr absl::string_view kTrust = "Trust";
constexpr absl::string_view kMachines = "Several machines";
constexpr absl::string_view kPage = "Live page";
constexpr absl::string_view kFailures = "After a failure";

constexpr CommandFlag kRunFlags[] = {
    {"job", "FILE",
     "Job file (protobuf text format). Its relative data paths count from its folder; data paths "
     "in flags count from the current folder. Default: the built-in job.",
     kWhatRuns},
    {"device", "DEVICE,...",
     "Devices of the workers, given out in turn: cpu, cuda (the first GPU) or cuda:N. Default: "
     "cpu.",
     kWhatRuns},
    {"worker_command", "COMMAND",
     "Each worker is this program of your own (capstan.h), in the place of a built-in model. "
     "/bin/sh runs it in the current folder. Its environment has CAPSTAN_COORDINATOR, with keys "
     "CAPSTAN_KEYS, and as with torchrun RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, "
     "MASTER_ADDR and MASTER_PORT. Implies --model=program. Default: none.",
     kWhatRuns},
    {"run_dir", "DIR",
     "Folder for logs and results, of one run at a time. The files of an earlier run are removed "
     "first; other files stay. Default: runs/NAME-YYYYMMDD-HHMMSS.",
     kWrites},
    {"quiet", "", "Show no progress. Default: it is shown.", kWrites},
    {"summary_json", "FILE", "File for the summary as JSON, also of a failure. Default: none.",
     kWrites},
    {"record_history", "DIR",
     "Folder for a history of each worker's requests and replies, for capstan check. Histories of "
     "an earlier run are removed first. Workers and servers may be lost and replaced, but the job "
     "must not start again from a checkpoint. Recording costs time. Default: none.",
     kWrites},
    {"trace", "",
     "Each worker and server writes its activities and their times into the run folder, for "
     "capstan trace. Default: none.",
     kWrites},
    {"keys", "DIR",
     "Folder with keys (capstan keys): all processes talk over TLS, and have a token. Default: "
     "none, they talk in plaintext within this machine.",
     kTrust},
    {"insecure", "",
     "On several machines: plaintext between them. Whoever reaches them can read and change all. "
     "Default: --rendezvous needs --keys, and --hosts makes keys.",
     kTrust},
    {"hosts", "HOST,...|FILE",
     "The job is on these machines, and ssh reaches them without a password. USER@HOST:N is a host "
     "with N workers. A file has one host a line; # begins a comment. The first one coordinates. "
     "Programs, job and keys are copied; logs are fetched at the end. Data paths are the same on "
     "each host. Default: the job is on this machine.",
     kMachines},
    {"ssh", "COMMAND",
     "With --hosts: the program that reaches a host, and its flags, as in \"ssh -p 2222\". "
     "Default: ssh.",
     kMachines},
    {"bundle", "FILE",
     "With --hosts: archive of deploy/bundle.sh, or its unpacked folder. Hosts that do not have it "
     "get a copy in ~/.cache/capstan. Default: the bundle that this program is in.",
     kMachines},
    {"remote_programs", "DIR",
     "With --hosts, instead of --bundle: folder of each host that has the programs. Default: none.",
     kMachines},
    {"rendezvous", "HOST:PORT",
     "The job is on several machines. Give this command on each of them, with the same flags. The "
     "machine of HOST coordinates; the others wait for it. All end with the job. Needs --nnodes, "
     "and --keys or --insecure. Data paths are the same on each machine. Default: the job is on "
     "this machine alone.",
     kMachines},
    {"nnodes", "N", "With --rendezvous: number of machines, 1 to 4096. Required there.", kMachines},
    {"servers_per_node", "N",
     "With --hosts or --rendezvous: servers of each machine. If machines of a rendezvous differ, "
     "give the sum to --num_servers. Default: 1.",
     kMachines},
    {"workers_per_node", "N",
     "With --hosts or --rendezvous: workers of each machine. If machines of a rendezvous differ, "
     "give the sum to --num_workers. Default: one for each device in --device.",
     kMachines},
    {"network", "INTERFACE|RANGE",
     "With --hosts or --rendezvous: the network of the servers, as an interface (eth1) or a range "
     "of addresses (10.0.0.0/16). Default: the way to the coordinator; with --hosts, the way to "
     "this machine.",
     kMachines},
    {"first_rank", "N",
     "With --rendezvous: rank of this machine's first worker, the number of workers on the "
     "machines before it. Programs have it as RANK. Give it on all machines or on none. Default: a "
     "worker "
     "learns its rank when it joins.",
     kMachines},
    {"master_port", "N",
     "MASTER_PORT of programs that use torch.distributed beside Capstan. The program with rank 0 "
     "listens there, so jobs that share its machine have different ones. With "
     "--rendezvous=HOST:PORT MASTER_ADDR is HOST: give --first_rank=0 there. Default: a free one; "
     "on several machines 29500.",
     kMachines},
    {"end_with_stdin", "",
     "End all processes when the standard input ends, as Ctrl-C does: for ssh, which starts this "
     "command on another machine. Default: the standard input is not read.",
     kMachines},
    {"http_listen", "HOST:PORT",
     "The coordinator serves a page for browsers there, which shows the job as it goes on. With "
     "--keys over TLS. Default: none.",
     kPage},
    {"restart", "never|on_failure[:N]",
     "on_failure: start another worker in a lost one's place; under bsp it does the lost one's "
     "step "
     "again, with the same bits. After the loss of a server without a copy, or "
     "under bsp of a worker that cannot be replaced so (lossy codecs, a program without "
     "replaceable), start all again from the newest checkpoint. That needs --checkpoint_dir, and "
     "--checkpoint_steps or --checkpoint_seconds, and all processes on this machine; with --hosts "
     "or --rendezvous, only lost members are replaced, each on its machine. A job that has never "
     "trained is not started again, nor one that has failed 10 times in a row without a newer "
     "checkpoint. N: largest number of restarts and replaced processes, on each machine. never: "
     "start "
     "nothing again. Default: start another coordinator in a lost one's place, which goes on with "
     "the job from RUN_DIR/coordinator.state; with --replicas=2 another server, too; and nothing "
     "else.",
     kFailures},
};

// How a command reaches a running job.
constexpr CommandFlag kCoordinator = {"coordinator", "HOST:PORT,...",
                                      "Address of the job's coordinator, as in "
                                      "RUN_DIR/coordinator.port; or several addresses, tried in "
                                      "turn, if it may be at one of them. Or name the run folder "
                                      "first, as in capstan status RUN_DIR. One of the two is "
                                      "required."};
constexpr CommandFlag kKeys = {"keys", "DIR",
                               "Folder with the job's keys (capstan keys): its certificate and its "
                               "token. Needed if the job has "
                               "keys. Default: none."};
constexpr CommandFlag kInsecure = {
    "insecure", "",
    "The job runs with --insecure: talk to it in plaintext, and with --keys prove the token. "
    "Default: false."};

constexpr CommandFlag kAddressFlags[] = {
    {"network", "INTERFACE|RANGE",
     "The network of the address, as an interface (eth1) or a range of addresses (10.0.0.0/16). "
     "Default: see --towards."},
    {"towards", "HOST",
     "The address on the way to this host. Default: the address on the way to other networks."},
};

constexpr CommandFlag kStatusFlags[] = {kCoordinator, kKeys, kInsecure};

constexpr CommandFlag kSetFlags[] = {
    kCoordinator,
    kKeys,
    kInsecure,
    {"consistency", "bsp|ssp|async",
     "The rule for answering pulls. bsp and async clear the staleness. Default: unchanged."},
    {"staleness", "STEPS", "ssp: largest difference of two workers' steps. Default: unchanged."},
    {"table_staleness", "TABLE:STEPS,...",
     "ssp: the tables with a staleness of their own. Replaces the earlier list; an empty list "
     "clears it. Default: unchanged."},
};

constexpr CommandFlag kCheckFlags[] = {
    {"clock_skew_ms", "N",
     "Largest difference of two workers' clocks, in ms. Default: the history's value, 1."},
};

constexpr CommandFlag kCheckpointFlags[] = {
    {"coordinator", "HOST:PORT,...",
     "Write a checkpoint of a running job, and wait until it is complete. The address is in "
     "RUN_DIR/coordinator.port; capstan checkpoint RUN_DIR does the same. Several addresses are "
     "tried in turn. The job needs --checkpoint_dir."},
    {"list", "DIR",
     "Print a line for each checkpoint in this folder, the newest first. Only manifests are read."},
    {"verify", "DIR",
     "Read all files of the checkpoint in this folder, or of all complete ones in it, and compare "
     "them with their manifests. The first wrong file of each checkpoint is named."},
    kKeys,
    kInsecure,
};

constexpr CommandFlag kEvaluateFlags[] = {
    {"job", "FILE", "Job file: the model and the data. Default: the built-in job."},
};

constexpr CommandFlag kExportFlags[] = {
    {"checkpoint", "DIR",
     "Folder of a checkpoint, or a folder of checkpoints: then the newest complete one is taken. "
     "Required."},
    {"output", "FILE",
     "File for the model. An existing file is replaced when the new one is complete. Required."},
    {"optimizer_state", "",
     "Write the optimizer's state of dense tables, too: see above. Default: it is left out."},
};

constexpr CommandFlag kGetFlags[] = {
    {"table", "NAME", "A sparse table of the job. Required."},
    {"row_keys", "KEY,...",
     "Keys of rows, with commas: whole numbers of 64 bits. A negative one is its 64 bits, as in "
     "Python. Required."},
    {"coordinator", "HOST:PORT,...",
     "Reads from the servers of a running job: the address of its coordinator. Several addresses "
     "are tried in turn. This, the run folder (capstan get RUN_DIR) or --checkpoint is required."},
    {"checkpoint", "DIR",
     "Reads from the folder of a checkpoint, or from the newest complete one in a folder of "
     "checkpoints."},
    kKeys,
    kInsecure,
};

constexpr CommandFlag kJobFlags[] = {
    {"job", "FILE", "Job file. Default: the built-in job."},
};

constexpr CommandFlag kKeysFlags[] = {
    {"out", "DIR",
     "Folder to make. If it has the keys of an earlier call, their CA and their token stay, and "
     "the certificate and its private key are made anew. Required."},
    {"hosts", "HOST,...",
     "DNS names and IP addresses at which servers with this certificate are reached; "
     "*.example.org is any host of that domain. The list replaces the earlier one. Default: the "
     "hosts of the earlier certificate, else localhost, 127.0.0.1, ::1 and this machine's name."},
    {"days", "N",
     "How long the certificate is valid, at most as long as its CA: that is 10 years, or N days "
     "if they are more. Default: 365."},
    {"from", "DIR",
     "Folder with the full token, to make keys for somebody else. Needs --right or --hosts. "
     "Default: none."},
    {"right", "look|read|take_part",
     "With --from, what the holder of --out may do: see below. The certificate is then a client's: "
     "it cannot pose as a server. Default: everything."},
};

constexpr CommandFlag kReportFlags[] = {
    {"output", "FILE", "File for the page. Default: RUN_DIR/report.html."},
};

constexpr CommandFlag kTraceFlags[] = {
    {"output", "FILE", "File for the trace. Default: RUN_DIR/trace.json."},
};

}  // namespace

absl::Span<const CommandFlag> RunFlags() { return kRunFlags; }
absl::Span<const CommandFlag> AddressFlags() { return kAddressFlags; }
absl::Span<const CommandFlag> StatusFlags() { return kStatusFlags; }
absl::Span<const CommandFlag> SetFlags() { return kSetFlags; }
absl::Span<const CommandFlag> CheckFlags() { return kCheckFlags; }
absl::Span<const CommandFlag> CheckpointFlags() { return kCheckpointFlags; }
absl::Span<const CommandFlag> EvaluateFlags() { return kEvaluateFlags; }
absl::Span<const CommandFlag> ExportFlags() { return kExportFlags; }
absl::Span<const CommandFlag> GetFlags() { return kGetFlags; }
absl::Span<const CommandFlag> JobCommandFlags() { return kJobFlags; }
absl::Span<const CommandFlag> KeysFlags() { return kKeysFlags; }
absl::Span<const CommandFlag> ReportFlags() { return kReportFlags; }
absl::Span<const CommandFlag> TopFlags() { return kStatusFlags; }
absl::Span<const CommandFlag> TraceFlags() { return kTraceFlags; }

}  // namespace capstan
