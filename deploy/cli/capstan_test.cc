// The program itself: its help, its exit codes and its one-line errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/program.h"
#include "deploy/launch/child_process.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Result {
  int code;
  std::string output;
};

Result Capstan(const std::vector<std::string>& args) {
  const std::string log = ::testing::TempDir() + "/capstan.log";
  std::remove(log.c_str());
  auto child = ChildProcess::Start({"deploy/cli/capstan", args, log});
  EXPECT_TRUE(child.ok()) << child.status();
  siginfo_t info;
  EXPECT_EQ(waitid(P_PID, (*child)->pid(), &info, WEXITED | WNOWAIT), 0);
  std::ostringstream output;
  output << std::ifstream(log).rdbuf();
  return {(*child)->Poll()->code, output.str()};
}

// The shared libraries of the program.
std::string LibrariesOf(const std::string& program) {
  std::string libraries(1 << 20, '\0');
  FILE* const ldd = popen(("ldd " + program).c_str(), "r");
  libraries.resize(fread(libraries.data(), 1, libraries.size(), ldd));
  EXPECT_EQ(pclose(ldd), 0);
  return libraries;
}

int NumLines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(CapstanTest, HelpIsPrintedForEveryWayToAskForIt) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, {"help"}, {"--help"}, {"-h"}}) {
    const Result result = Capstan(args);
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.output, HasSubstr("Usage:\n  capstan run"));
  }
  EXPECT_EQ(Capstan({"help", "run"}).output, Capstan({"run", "--seed=2", "--help"}).output);
  EXPECT_EQ(Capstan({"help", "status"}).output, Capstan({"status", "-h"}).output);
  EXPECT_EQ(Capstan({"help", "set"}).output, Capstan({"set", "-h"}).output);
  EXPECT_EQ(Capstan({"help", "check"}).output, Capstan({"check", "-h"}).output);
  EXPECT_EQ(Capstan({"help", "checkpoint"}).output, Capstan({"checkpoint", "-h"}).output);
  EXPECT_EQ(Capstan({"help", "export"}).output, Capstan({"export", "-h"}).output);
  EXPECT_EQ(Capstan({"help", "evaluate"}).output, Capstan({"evaluate", "-h"}).output);
  EXPECT_EQ(Capstan({"help", "report"}).output, Capstan({"report", "-h"}).output);
  EXPECT_EQ(Capstan({"help", "trace"}).output, Capstan({"trace", "-h"}).output);
}

// OpenBLAS starts threads as it is loaded, and takes memory for each: capstan run and capstan
// status have no use for them.
TEST(CapstanTest, OnlyEvaluateComputes) {
  EXPECT_THAT(LibrariesOf("deploy/cli/capstan_evaluate"), HasSubstr("libopenblas"));
  EXPECT_THAT(LibrariesOf("deploy/cli/capstan"),
              AllOf(HasSubstr("libgrpc"), Not(HasSubstr("libopenblas"))));
}

TEST(CapstanTest, HelpOnATopicIsPrinted) {
  const Result result = Capstan({"help", "flagfile"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.output, StartsWith("FLAG FILES\n"));
}

TEST(CapstanTest, HelpOnAWordThatIsATopicAndACommandPrintsBoth) {
  const Result result = Capstan({"help", "keys"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.output,
              AllOf(StartsWith("KEYS\n"), EndsWith("\n\n" + Capstan({"keys", "--help"}).output)));
}

TEST(CapstanTest, FlagFilesAreReadByEveryCommand) {
  const std::string path = ::testing::TempDir() + "/capstan_test.flags";
  std::ofstream(path) << "# Wrong for every command.\n\n--wrong=1\n";
  for (const std::vector<std::string>& args : {std::vector<std::string>{"run"},
                                               {"status"},
                                               {"top"},
                                               {"set"},
                                               {"check", "h"},
                                               {"checkpoint"},
                                               {"evaluate", "m"},
                                               {"export"},
                                               {"get"},
                                               {"job"},
                                               {"keys"},
                                               {"report", "r"},
                                               {"trace", "r"}}) {
    std::vector<std::string> with_file = args;
    with_file.push_back("--flagfile=" + path);
    const Result result = Capstan(with_file);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.output, StartsWith("capstan " + args[0] +
                                          ": unknown flag \"--wrong=1\"; expected one of "));
  }
}

TEST(CapstanTest, AFlagBehindAFlagFileWins) {
  const std::string path = ::testing::TempDir() + "/capstan_test_keys.flags";
  const std::string dir = ::testing::TempDir() + "/capstan_test_flagfile_keys";
  std::ofstream(path) << "--out=" << dir << "\n--hosts=from-the-file\n--days=30\n";
  const Result made = Capstan({"keys", "--flagfile", path, "--hosts=from-behind"});
  EXPECT_EQ(made.code, 0) << made.output;
  EXPECT_THAT(made.output, AllOf(StartsWith(dir + ": a new CA"), HasSubstr("from-behind"),
                                 Not(HasSubstr("from-the-file"))));
}

TEST(CapstanTest, VersionIsThatOfEveryProgram) {
  const Result result = Capstan({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.output, std::string("capstan ") + kVersion + "\n");
}

TEST(CapstanTest, WrongCommandLinesAreOneLineAndExitCode2) {
  const struct {
    std::vector<std::string> args;
    const char* error;
  } cases[] = {
      {{"rum"},
       "capstan: unknown command \"rum\" (did you mean run?); expected run, status, top, set, "
       "check, "
       "checkpoint, export, get, evaluate, job, keys, report, trace, address or help"},
      {{"help", "rum"},
       "capstan help: expected one command (run, status, top, set, check, checkpoint, export, get, "
       "evaluate, job, keys, report, trace, address) or one topic (jobs, fields, programs, "
       "consistency, local-steps, "
       "machines, "
       "slurm, "
       "keys, "
       "compression, checkpoints, watching, flagfile, exit_codes), got \"rum\"\n"},
      {{"help", "jobs", "keys"}, "capstan help: expected one command (run, "},
      {{"status", "--flagfile=/nonexistent/f"},
       "capstan status: --flagfile: expected a file of flags that can be read, got "
       "\"/nonexistent/f\" (No such file or directory)\n"},
      {{"run", "--jobb=x"},
       "capstan run: unknown flag \"--jobb=x\" (did you mean --job?); expected one of --job"},
      {{"run", "--num_worker=2"},
       "capstan run: unknown flag \"--num_worker=2\" (did you mean --num_workers?); expected one"},
      {{"run", "--num_workers=0"}, "capstan run: --num_workers: expected 1 to 4096, got 0"},
      {{"run", "--num_workers=-1"}, "capstan run: flag --num_workers: expected a whole number"},
      {{"run", "--staleness=-1"}, "capstan run: --staleness: expected 0 or more, got -1 ("},
      {{"job", "--num_workers=0"}, "capstan job: --num_workers: expected 1 to 4096, got 0"},
      {{"evaluate", "m", "--num_workers=0"},
       "capstan evaluate: --num_workers: expected 1 to 4096, got 0"},
      {{"run", "--http_listen=x"},
       "capstan run: --http_listen: expected host:port with a port from 0 to 65535, got \"x\""},
      {{"run", "--rendezvous=host:65536", "--nnodes=2"},
       "capstan run: --rendezvous: expected host:port with a port from 0 to 65535, got \"host:6"},
      {{"run", "x"}, "capstan run: unknown argument \"x\""},
      {{"run", "--device=cpu,gpu"},
       "capstan run: --device: expected cpu, cuda or cuda:N with the number of a GPU, from 0; got "
       "\"gpu\""},
      {{"run", "--consistency=foo"}, "capstan run: flag --consistency: expected one of bsp, ssp"},
      {{"run", "--steps"}, "capstan run: flag --steps: expected a value"},
      {{"run", "--restart=always"}, "capstan run: flag --restart: expected never, on_failure, "},
      {{"run", "--restart=on_failure:0"},
       "capstan run: flag --restart: expected never, on_failure"},
      {{"run", "--worker_command=train", "--device=cuda"},
       "capstan run: --device: cannot matter, because the workers are programs of your own"},
      {{"evaluate"}, "capstan evaluate: expected FILE, a model, got none"},
      {{"evaluate", "m", "--jobb=x"}, "capstan evaluate: unknown flag \"--jobb=x\" (did you mean"},
      {{"status"}, "capstan status: expected RUN_DIR or --coordinator=HOST:PORT"},
      {{"status", "--coordinator=host:65536"},
       "capstan status: --coordinator: expected host:port with a port from 1 to 65535, got "
       "\"host:65536\""},
      {{"status", "--coordinator=host:1,,host:2"},
       "capstan status: --coordinator: expected host:port, or several of them with one comma "
       "between two, got "
       "\"host:1,,host:2\""},
      {{"top", "--coordinator=host"}, "capstan top: --coordinator: expected host:port with a port"},
      {{"set", "--coordinator=http://host:80", "--staleness=4"},
       "capstan set: --coordinator: expected host:port with a port from 1 to 65535, got "
       "\"http://host:80\"; leave out what is before the host"},
      {{"checkpoint", "--coordinator=::1:4000"},
       "capstan checkpoint: --coordinator: expected host:port with a port from 1 to 65535, got "
       "\"::1:4000\"; an IPv6 address needs brackets, as in [::1]:4000"},
      {{"get", "--coordinator=:80", "--table=t", "--row_keys=1"},
       "capstan get: --coordinator: expected host:port with"},
      {{"top"}, "capstan top: expected RUN_DIR or --coordinator=HOST:PORT"},
      {{"set", "--staleness=4"}, "capstan set: expected RUN_DIR or --coordinator=HOST:PORT"},
      {{"set", "--coordinator=host:1"}, "capstan set: expected --consistency, --staleness or "},
      {{"set", "--coordinator=host:1", "--staleness=four"},
       "capstan set: flag --staleness: expect"},
      {{"set", "--coordinator=host:1", "--steps=9"}, "capstan set: unknown flag \"--steps=9\""},
      {{"check"}, "capstan check: expected HISTORY, a file or a folder, got none"},
      {{"checkpoint"},
       "capstan checkpoint: expected one of RUN_DIR, --coordinator=HOST:PORT, --list=DIR and "
       "--verify=DIR, "
       "got none"},
      {{"checkpoint", "--list="},
       "capstan checkpoint: expected one of RUN_DIR, --coordinator=HOST:PORT, "},
      {{"checkpoint", "--list=a", "--verify=a"},
       "capstan checkpoint: expected one of RUN_DIR, --coordinator=HOST:PORT, --list=DIR and "
       "--verify=DIR, "
       "got several"},
      {{"checkpoint", "a"},
       "capstan checkpoint: expected a run folder, in which a job has written "},
      {{"export", "--output=m"},
       "capstan export: expected --checkpoint=DIR and --output=FILE, got none for --checkpoint"},
      {{"export", "--checkpoint=a"},
       "capstan export: expected --checkpoint=DIR and --output=FILE, got none for --output"},
      {{"job", "--jobb=x"},
       "capstan job: unknown flag \"--jobb=x\" (did you mean --job?); expected"},
      {{"keys"}, "capstan keys: flag --out: expected DIR, the folder to make, got none"},
      {{"keys", "--out=a", "--bits=1"}, "capstan keys: unknown flag \"--bits=1\""},
      {{"keys", "--out=a", "--hosts=a\x1b"},
       "capstan keys: flag --hosts: expected a host such as "},
      {{"keys", "--out=a", "--from=b"}, "capstan keys: expected --right=RIGHT or --hosts=HOST,"},
      {{"report"}, "capstan report: expected RUN_DIR, the folder of a run, got none"},
      {{"report", "--output=x"},
       "capstan report: expected RUN_DIR, the folder of a run, got \"--o"},
      {{"trace"}, "capstan trace: expected RUN_DIR, the folder of a run, got none"},
      {{"trace", "run", "--seed=1"}, "capstan trace: unknown flag \"--seed=1\"; expected"},
      {{"run", "--trace=here"}, "capstan run: flag --trace: expected true or false, got here"},
      {{"report", "run", "--seed=1"}, "capstan report: unknown flag \"--seed=1\"; expected"},
      {{"status", "--seed=1"}, "capstan status: unknown flag \"--seed=1\""},
  };
  for (const auto& test : cases) {
    const Result result = Capstan(test.args);
    EXPECT_EQ(result.code, 2) << test.error;
    EXPECT_THAT(result.output, StartsWith(test.error));
    EXPECT_EQ(NumLines(result.output), 1) << result.output;
  }
}

TEST(CapstanTest, FailuresAreOneLineAndExitCode1) {
  const Result missing = Capstan({"run", "--job=/nonexistent/job.textproto"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(NumLines(missing.output), 1) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("/nonexistent/job.textproto"));
  const Result unread = Capstan({"check", "/nonexistent/history"});
  EXPECT_EQ(unread.code, 1);
  EXPECT_THAT(unread.output, HasSubstr("/nonexistent/history"));
  const Result untraced = Capstan({"trace", "/nonexistent/run"});
  EXPECT_EQ(untraced.code, 1);
  EXPECT_EQ(NumLines(untraced.output), 1) << untraced.output;
  EXPECT_THAT(untraced.output, HasSubstr("expected the folder of a run, got /nonexistent/run"));
  const Result unreported = Capstan({"report", "/nonexistent/run"});
  EXPECT_EQ(unreported.code, 1);
  EXPECT_EQ(NumLines(unreported.output), 1) << unreported.output;
  EXPECT_THAT(unreported.output, HasSubstr("there is no folder /nonexistent/run"));
  const Result unreachable = Capstan({"status", "--coordinator=127.0.0.1:1"});
  EXPECT_EQ(unreachable.code, 1);
  EXPECT_THAT(unreachable.output, AllOf(StartsWith("capstan status: "), HasSubstr("127.0.0.1:1")));
  const Result unwritten = Capstan({"checkpoint", "--coordinator=127.0.0.1:1"});
  EXPECT_EQ(unwritten.code, 1);
  EXPECT_THAT(unwritten.output, AllOf(StartsWith("capstan checkpoint: coordinator 127.0.0.1:1"),
                                      HasSubstr("check that it runs")));
  const Result unverified = Capstan({"checkpoint", "--verify=/nonexistent/checkpoints"});
  EXPECT_EQ(unverified.code, 1);
  EXPECT_EQ(NumLines(unverified.output), 1) << unverified.output;
  EXPECT_THAT(unverified.output, HasSubstr("/nonexistent/checkpoints"));
  const Result keyless = Capstan({"keys", "--from=/nonexistent", "--right=look", "--out=none"});
  EXPECT_EQ(keyless.code, 1);
  EXPECT_EQ(NumLines(keyless.output), 1) << keyless.output;
  EXPECT_THAT(keyless.output,
              StartsWith("capstan keys: expected the file /nonexistent/token: No such file"));
  const Result unset = Capstan({"set", "--coordinator=127.0.0.1:1", "--staleness=4"});
  EXPECT_EQ(unset.code, 1);
  EXPECT_EQ(NumLines(unset.output), 1) << unset.output;
  EXPECT_THAT(unset.output, AllOf(StartsWith("capstan set: "), HasSubstr("127.0.0.1:1")));
}

TEST(CapstanTest, KeysAreMade) {
  const std::string dir = ::testing::TempDir() + "/capstan_test_keys";
  const Result made = Capstan({"keys", "--out", dir, "--hosts=node.example.org", "--days=30"});
  EXPECT_EQ(made.code, 0);
  EXPECT_THAT(made.output, AllOf(StartsWith(dir + ": a new CA"), HasSubstr("node.example.org")));
  EXPECT_TRUE(std::ifstream(dir + "/tls.crt").good());
}

}  // namespace
}  // namespace capstan
