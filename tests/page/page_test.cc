// The live page of a real coordinator, with a real job, in a real browser.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/trust/job_token.h"
#include "deploy/cli/grpc_status_client.h"
#include "deploy/cli/text/number_text.h"
#include "proto/coordinator_service.grpc.pb.h"
#include "tests/integration/job_processes.h"
#include "tests/page/browser.h"
#include "tests/transport/test_keys.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// These jobs are stopped on purpose, and no lease runs out meanwhile.
constexpr char kLease[] = "--lease_seconds=100";
constexpr char kDeadline[] = "--rpc_deadline_seconds=100";

std::string NewFolder() {
  std::string folder = testing::TempDir() + "/page-XXXXXX";
  return mkdtemp(folder.data());
}

// A CSS selector of a cell in a table, rows and columns counted from 0.
std::string Cell(const std::string& body, int row, int column) {
  return absl::StrFormat("#%s tr:nth-child(%d) td:nth-child(%d)", body, row + 1, column + 1);
}

// Keeps a picture for a README, if somebody wants it.
void Keep(const std::string& name, const std::string& png) {
  const char* const folder = getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  if (folder != nullptr) std::ofstream(absl::StrCat(folder, "/", name)) << png;
}

class PageTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { browser_ = new Browser(NewFolder()); }
  static void TearDownTestSuite() {
    delete browser_;
    browser_ = nullptr;
  }

  PageTest() : job_(NewFolder()) {}

  // Starts a coordinator with a page.
  void StartCoordinator(std::vector<std::string> flags) {
    flags.insert(flags.end(), {kLease, kDeadline, "--http_listen=127.0.0.1:0"});
    ASSERT_NO_FATAL_FAILURE(job_.StartCoordinator(flags));
    const std::string before = "live page at ";
    ASSERT_TRUE(job_.WaitForLog("coordinator", before, absl::Seconds(10)));
    const std::string log = job_.Log("coordinator");
    const size_t begin = log.find(before) + before.size();
    url_ = log.substr(begin, log.find('\n', begin) - begin);
  }
  void StartMembers(const std::vector<std::string>& flags, int num_servers) {
    std::vector<std::string> args = {"--coordinator=" + job_.coordinator_address()};
    args.insert(args.end(), flags.begin(), flags.end());
    for (int i = 0; i < num_servers; ++i) {
      job_.Start(absl::StrCat("server-", i), "server/capstan_server", args);
      ASSERT_TRUE(job_.WaitForLog(absl::StrCat("server-", i), "registered", absl::Seconds(20)));
    }
    for (int i = 0; i < 2; ++i) {
      job_.Start(absl::StrCat("worker-", i), "worker/capstan_worker", args);
    }
    ASSERT_TRUE(job_.WaitForLog("coordinator", "phase TRAINING", absl::Seconds(30)));
  }
  // An endless job of two workers.
  void StartJob(int num_servers) {
    StartCoordinator({absl::StrCat("--num_servers=", num_servers), "--num_workers=2",
                      "--steps=1000000", "--learning_rate=0.002", "--consistency=ssp",
                      "--staleness=3", "--push_codec=bfloat16", "--field=codec.min_bytes=0",
                      "--heartbeat_seconds=0.2"});
    StartMembers({}, num_servers);
  }
  // From now on no number changes.
  void StopWorkers() {
    for (const char* worker : {"worker-0", "worker-1"}) job_.Signal(worker, SIGSTOP);
    job_.WaitUntil(absl::Milliseconds(700), [] { return false; });
  }
  // Waits for this many more statuses on the page.
  void AwaitPolls(int count) {
    const auto polls = browser_->Evaluate("Number(document.body.dataset.polls || 0)");
    ASSERT_TRUE(
        browser_->WaitUntil(absl::StrCat("Number(document.body.dataset.polls || 0) >= ",
                                         polls.is_number() ? polls.get<int>() + count : count)));
  }
  v1::GetStatusReply Status(const SecurityPointer& security = NoSecurity()) {
    return GrpcStatusClient(job_.coordinator_address(), &clock_, security).GetStatus().value();
  }
  void LogIn(const std::string& token) {
    ASSERT_TRUE(browser_->WaitUntil("document.activeElement.id === 'token'"));
    browser_->Type(token);
    browser_->Press("Enter");
  }
  // Presses Tab until an element has the focus.
  bool TabTo(const std::string& id) {
    for (int i = 0; i < 30; ++i) {
      if (browser_->Evaluate("document.activeElement.id") == id) return true;
      browser_->Press("Tab");
    }
    return false;
  }
  std::string TextOf(const std::string& selector) { return browser_->TextOf(selector); }

  static Browser* browser_;
  RealClock clock_;
  JobProcesses job_;
  std::string url_;
};

Browser* PageTest::browser_ = nullptr;

TEST_F(PageTest, NumbersAreThoseOfGetStatus) {
  ASSERT_NO_FATAL_FAILURE(StartJob(/*num_servers=*/2));
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(5));
  Keep("light-1600.png", browser_->Screenshot());
  StopWorkers();
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(2));
  const v1::GetStatusReply status = Status();
  EXPECT_EQ(TextOf("#job"), status.job_name());
  EXPECT_EQ(TextOf("#phase"), "training");
  EXPECT_EQ(TextOf("#consistency-now"), "ssp, staleness 3");
  EXPECT_EQ(TextOf("#live-workers"), "2 of 2");
  EXPECT_THAT(TextOf("#codec"), HasSubstr("pushed 2.0x smaller"));
  EXPECT_EQ(TextOf("#periods"), "0ssp, staleness 3");
  int64_t steps = 0;
  for (int i = 0; i < 2; ++i) {
    const v1::Progress& progress = status.progress(i);
    steps += progress.steps_done();
    EXPECT_EQ(TextOf(Cell("workers", i, 2)),
              absl::StrCat(progress.steps_done(), " / ", progress.steps_total()));
    EXPECT_EQ(TextOf(Cell("workers", i, 3)), absl::StrFormat("%.4f", progress.loss()));
    EXPECT_EQ(TextOf(Cell("workers", i, 6)), absl::StrCat(progress.steps_ahead()));
    EXPECT_EQ(TextOf(Cell("workers", i, 7)),
              absl::StrFormat("%.2f", progress.mean_staleness_seen()));
    EXPECT_EQ(TextOf(Cell("workers", i, 8)), absl::StrCat(progress.max_staleness_seen()));
    EXPECT_EQ(TextOf(Cell("workers", i, 10)),
              absl::StrFormat("%.0f %%", 100 * progress.seconds_waiting() / progress.seconds()));
    EXPECT_EQ(TextOf(Cell("workers", i, 13)), absl::StrCat(progress.queued_transfers()));
    EXPECT_EQ(TextOf(Cell("workers", i, 14)), BytesText(progress.bytes_pushed()));
  }
  EXPECT_GT(steps, 0);
  // capstan top prints the same, once, because this is no terminal.
  job_.Start("top", "deploy/cli/capstan", {"top", "--coordinator=" + job_.coordinator_address()});
  EXPECT_EQ(job_.WaitForExit("top", absl::Seconds(10)).code, 0);
  EXPECT_THAT(job_.Log("top"), HasSubstr(absl::StrCat(status.progress(0).steps_done(), "/")));
  EXPECT_THAT(job_.Log("top"), HasSubstr(absl::StrFormat(
                                   "staleness %.2f", status.progress(1).mean_staleness_seen())));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(TextOf(Cell("servers", i, 1)), status.view().servers(i).address());
    EXPECT_EQ(TextOf(Cell("servers", i, 4)), BytesText(status.bytes_of_server(i)));
    std::string exchanges = TextOf(Cell("servers", i, 5));
    exchanges.erase(std::remove(exchanges.begin(), exchanges.end(), ','), exchanges.end());
    EXPECT_EQ(exchanges, absl::StrCat(status.load_of_server(i).exchanges()));
    EXPECT_GT(status.load_of_server(i).exchanges(), 0u);
  }
  EXPECT_EQ(TextOf("#shards"), absl::StrJoin(status.view().server_of_shard(), ""));
  EXPECT_THAT(TextOf("#log"), HasSubstr("phase TRAINING"));
  EXPECT_EQ(browser_->Evaluate("document.querySelectorAll('#chart-loss path.series').length"), 2);
  // Every chart is drawn, and nothing in it is NaN.
  EXPECT_EQ(browser_->Evaluate("document.querySelectorAll('#charts svg').length"), 6);
  EXPECT_THAT(browser_->Evaluate("document.getElementById('charts').innerHTML").get<std::string>(),
              Not(HasSubstr("NaN")));
  // Nothing is fetched from elsewhere.
  EXPECT_EQ(browser_->Evaluate("performance.getEntriesByType('resource').filter(function (r) { "
                               "return r.name.indexOf(location.origin) !== 0; }).length"),
            0);
}

TEST_F(PageTest, FitsIntoNarrowAndWideWindowsInLightAndDark) {
  ASSERT_NO_FATAL_FAILURE(StartJob(/*num_servers=*/1));
  browser_->Open(url_);
  std::vector<std::string> backgrounds;
  for (const bool is_dark : {false, true}) {
    for (const int width : {400, 1600}) {
      browser_->SetView(width, 1000, is_dark);
      AwaitPolls(2);
      SCOPED_TRACE(absl::StrCat(width, is_dark ? " dark" : " light"));
      EXPECT_EQ(browser_->Evaluate("innerWidth"), width);
      EXPECT_EQ(browser_->Evaluate("document.documentElement.scrollWidth - "
                                   "document.documentElement.clientWidth"),
                0);
      EXPECT_EQ(browser_->Evaluate(
                    "Array.from(document.querySelectorAll('main *')).filter(function (e) { "
                    "return !e.closest('.scroll') && !e.closest('svg') && "
                    "e.getBoundingClientRect().right > innerWidth + 1; }).length"),
                0);
      backgrounds.push_back(
          browser_->Evaluate("getComputedStyle(document.body).backgroundColor").get<std::string>());
      if (is_dark && width == 400) Keep("dark-400.png", browser_->Screenshot());
    }
  }
  EXPECT_EQ(backgrounds[0], backgrounds[1]);
  EXPECT_EQ(backgrounds[2], backgrounds[3]);
  EXPECT_NE(backgrounds[0], backgrounds[2]);
}

TEST_F(PageTest, AChangeMadeWithTheKeyboardHappens) {
  ASSERT_NO_FATAL_FAILURE(StartJob(/*num_servers=*/1));
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  ASSERT_TRUE(TabTo("staleness"));
  // The focus can be seen, and the field has a label.
  EXPECT_NE(browser_->Evaluate("getComputedStyle(document.activeElement).outlineStyle"), "none");
  EXPECT_EQ(browser_->Evaluate("document.activeElement.labels[0].textContent"),
            "Staleness, steps (ssp)");
  browser_->Evaluate("document.activeElement.select()");
  browser_->Type("7");
  browser_->Press("Tab");
  browser_->Press("Enter");
  ASSERT_TRUE(browser_->WaitUntil(
      "document.getElementById('consistency-answer').textContent.indexOf('ssp, staleness 7') > 0"))
      << TextOf("#consistency-answer");
  const v1::GetStatusReply status = Status();
  const v1::ConsistencyPeriod& period = *status.view().consistency().rbegin();
  EXPECT_EQ(period.consistency().staleness(), 7);
  EXPECT_EQ(TextOf("#consistency-answer"),
            absl::StrCat("From step ", period.first_step(), " of 1000000 on: ssp, staleness 7."));
  ASSERT_TRUE(browser_->WaitUntil(
      "document.getElementById('consistency-now').textContent === 'ssp, staleness 7'"));
  // The job reaches the step.
  EXPECT_TRUE(job_.WaitUntil(
      absl::Seconds(10), [&] { return Status().progress(0).steps_done() > period.first_step(); }));
  // A staleness that is none is refused, by the browser or by the coordinator.
  EXPECT_EQ(browser_->Evaluate("fetch('consistency', {method: 'POST', body: new URLSearchParams("
                               "{mode: 'ssp', staleness: '-1'})}).then(a => a.status)"),
            400);
}

TEST_F(PageTest, TokensDecideWhoSeesAndWhoChanges) {
  TestKeys keys;
  keys.authority = MakeTestAuthority();
  keys.token = MakeToken();
  const std::string dir = WriteTestKeys(keys);
  StartCoordinator({"--keys=" + dir, "--num_servers=1", "--num_workers=2", "--steps=1000000",
                    "--consistency=ssp", "--staleness=3"});
  ASSERT_THAT(url_, testing::StartsWith("https://"));
  ASSERT_NO_FATAL_FAILURE(StartMembers({"--keys=" + dir}, /*num_servers=*/1));
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(LogIn("a token of another job"));
  ASSERT_TRUE(browser_->WaitUntil("document.getElementById('login-answer').textContent"));
  EXPECT_THAT(TextOf("#login-answer"), HasSubstr("not a token of this job"));
  EXPECT_EQ(browser_->Evaluate("fetch('status.json').then(a => a.status)"), 401);
  EXPECT_EQ(TextOf("#workers"), "");

  browser_->Evaluate("document.getElementById('token').value = ''");
  browser_->Evaluate("document.getElementById('token').focus()");
  ASSERT_NO_FATAL_FAILURE(LogIn(WeakerToken(keys.token, Right::kLook)));
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  EXPECT_EQ(TextOf("#live-workers"), "2 of 2");
  EXPECT_THAT(TextOf("#right"), HasSubstr("Your token may look"));
  // Scripts do not see the cookie.
  EXPECT_EQ(browser_->Evaluate("document.cookie"), "");
  ASSERT_TRUE(TabTo("staleness"));
  browser_->Press("Enter");
  ASSERT_TRUE(browser_->WaitUntil("document.getElementById('consistency-answer').textContent"));
  EXPECT_THAT(TextOf("#consistency-answer"), HasSubstr("right to operate, got one to look only"));
  const SecurityPointer security = GrpcSecurity::Open({dir, false, &clock_}).value();
  EXPECT_EQ(Status(security).view().consistency_size(), 1);

  browser_->Evaluate("document.getElementById('logout').click()");
  ASSERT_NO_FATAL_FAILURE(LogIn(keys.token));
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  EXPECT_EQ(TextOf("#right"), "");
  browser_->Evaluate("document.getElementById('mode').value = 'async'");
  ASSERT_TRUE(TabTo("staleness"));
  browser_->Press("Enter");
  ASSERT_TRUE(
      browser_->WaitUntil("document.getElementById('consistency-now').textContent === 'async'"))
      << TextOf("#consistency-answer");
  EXPECT_EQ(Status(security).view().consistency().rbegin()->consistency().mode(),
            v1::ConsistencySpec::ASYNC);
}

TEST_F(PageTest, HostileNamesAreShownAsText) {
  ASSERT_NO_FATAL_FAILURE(StartCoordinator({"--num_servers=1", "--num_workers=2"}));
  const auto stub = v1::CoordinatorService::NewStub(
      grpc::CreateChannel(job_.coordinator_address(), grpc::InsecureChannelCredentials()));
  v1::RegisterServerRequest server;
  server.set_wire_version(kWireVersion);
  server.set_incarnation(1);
  server.set_address("<b\tid=bad>x:1");
  v1::RegisterReply registered;
  grpc::ClientContext refused;
  EXPECT_FALSE(stub->RegisterServer(&refused, server, &registered).ok());
  server.set_address("<b>bad:1");
  grpc::ClientContext admitted;
  ASSERT_TRUE(stub->RegisterServer(&admitted, server, &registered).ok());
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  EXPECT_EQ(TextOf(Cell("servers", 0, 1)), "<b>bad:1");
  const std::string hostile = "<img src=x onerror=\"document.title='bad'\">";
  v1::ReportFailureRequest failure;
  failure.set_role(v1::HeartbeatRequest::WORKER);
  failure.set_before_registering(true);
  failure.set_reason(hostile);
  grpc::ClientContext reporting;
  v1::ReportFailureReply reported;
  ASSERT_TRUE(stub->ReportFailure(&reporting, failure, &reported).ok());
  ASSERT_TRUE(browser_->WaitUntil("document.getElementById('phase').textContent === 'failed'"));
  EXPECT_THAT(TextOf("#notice"), HasSubstr(hostile));
  EXPECT_THAT(TextOf("#log"), HasSubstr("<img"));
  EXPECT_EQ(browser_->Evaluate("document.querySelectorAll('img, b, #bad').length"), 0);
  EXPECT_THAT(browser_->Evaluate("document.title").get<std::string>(), Not(HasSubstr("bad")));
}

TEST_F(PageTest, ALostServerIsShownUntilAllShardsHaveTwoCopiesAgain) {
  ASSERT_NO_FATAL_FAILURE(
      StartCoordinator({"--replicas=2", "--num_servers=2", "--num_workers=2", "--consistency=async",
                        "--steps=1000000", "--heartbeat_seconds=0.2"}));
  ASSERT_NO_FATAL_FAILURE(StartMembers({}, /*num_servers=*/2));
  ASSERT_TRUE(job_.WaitForLog("coordinator", "have two equal copies", absl::Seconds(30)));
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  const std::string num_bold = "document.querySelectorAll('#shards .lost').length";
  EXPECT_EQ(TextOf("#lost-servers") + TextOf("#replaced-servers") + TextOf("#one-copy"), "00");
  EXPECT_EQ(browser_->Evaluate("document.getElementById('losses-view').hidden"), true);
  EXPECT_EQ(browser_->Evaluate(num_bold), 0);
  job_.Signal("server-1", SIGKILL);
  ASSERT_TRUE(browser_->WaitUntil("document.getElementById('losses').rows.length === 1"));
  const v1::ServerLoss loss = Status().server_losses(0);
  EXPECT_EQ(TextOf(Cell("losses", 0, 0)), absl::StrCat("server ", loss.server()));
  EXPECT_THAT(TextOf(Cell("losses", 0, 1)), HasSubstr(" s ago"));
  EXPECT_EQ(TextOf(Cell("losses", 0, 2)), loss.what());
  EXPECT_EQ(TextOf(Cell("losses", 0, 3)), absl::StrCat(loss.shards_moved()));
  EXPECT_EQ(TextOf(Cell("losses", 0, 4)), "some have one copy");
  EXPECT_EQ(browser_->Evaluate("document.getElementById('losses-view').hidden"), false);
  EXPECT_EQ(TextOf("#lost-servers") + TextOf("#replaced-servers"), "10");
  // No server is there for another copy.
  EXPECT_EQ(TextOf("#one-copy"), "64 of 64");
  EXPECT_EQ(browser_->Evaluate(num_bold), 64);
  EXPECT_THAT(TextOf("#shards-note"), HasSubstr("Bold ones have one copy only."));
  job_.Start("server-2", "server/capstan_server", {"--coordinator=" + job_.coordinator_address()});
  ASSERT_TRUE(
      browser_->WaitUntil("document.getElementById('losses').textContent.indexOf('after ') > 0"));
  const double seconds = Status().server_losses(0).seconds_until_whole();
  EXPECT_EQ(TextOf(Cell("losses", 0, 4)), absl::StrFormat("after %.1f s", seconds));
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  EXPECT_EQ(TextOf("#lost-servers") + TextOf("#replaced-servers") + TextOf("#one-copy"), "11");
  EXPECT_EQ(browser_->Evaluate(num_bold), 0);
}

TEST_F(PageTest, SaysSinceWhenTheCoordinatorIsAwayAndGoesOnWhenItIsBack) {
  std::vector<std::string> flags = {"--state=" + job_.path("state"),
                                    "--num_servers=1",
                                    "--num_workers=2",
                                    "--steps=1000000",
                                    "--consistency=async",
                                    kLease,
                                    kDeadline};
  ASSERT_NO_FATAL_FAILURE(StartCoordinator(flags));
  ASSERT_NO_FATAL_FAILURE(StartMembers({}, /*num_servers=*/1));
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  EXPECT_EQ(browser_->Evaluate("document.getElementById('notice').hidden"), true);
  job_.Signal("coordinator", SIGKILL);
  ASSERT_TRUE(browser_->WaitUntil("!document.getElementById('notice').hidden"));
  EXPECT_THAT(TextOf("#notice"),
              AllOf(HasSubstr("The coordinator has not answered since "),
                    HasSubstr("training goes on, for 600 s at most."), HasSubstr("nobody can join"),
                    HasSubstr("no checkpoint or change of consistency begins")));
  EXPECT_EQ(TextOf("#live-workers"), "2 of 2") << "as it was";
  const size_t begin = std::string("http://").size();
  flags.push_back("--http_listen=" + url_.substr(begin, url_.size() - begin - 1));
  ASSERT_NO_FATAL_FAILURE(job_.ReplaceCoordinator(flags));
  ASSERT_TRUE(browser_->WaitUntil("document.getElementById('notice').hidden"));
  const int64_t steps = Status().progress(0).steps_done();
  EXPECT_EQ(Status().term(), 2u);
  EXPECT_TRUE(
      job_.WaitUntil(absl::Seconds(20), [&] { return Status().progress(0).steps_done() > steps; }));
}

TEST_F(PageTest, CopiesThatAreMadeShowHowFarTheyAre) {
  ASSERT_NO_FATAL_FAILURE(StartCoordinator({"--num_servers=1", "--num_workers=2"}));
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(1));
  EXPECT_EQ(TextOf("#replaced-servers") + TextOf("#one-copy") + TextOf("#losses"), "");
  // The copies of a small job are made at once. So this status is made up.
  browser_->Evaluate(
      "(function () { var before = window.fetch; window.fetch = function (path, options) { "
      "return before(path, options).then(a => a.json()).then(function (status) { "
      "status.server_of_shard = [0, 1, 0, 1]; status.servers_replaced = 0; "
      "status.copies = {text: '1 of 4 whole', server_of_shard: [1, 0, 1, 0], one_copy: [0, 1, 3], "
      "bytes_to_copy: 4000000, bytes_copied: 1040000}; "
      "return new Response(JSON.stringify(status)); }); }; })()");
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(2));
  EXPECT_EQ(TextOf("#one-copy"), "3 of 4, 3.0 MB left to copy");
  EXPECT_EQ(browser_->Evaluate("Array.from(document.getElementById('shards').children).map("
                               "cell => cell.title).slice(1, 3)"),
            nlohmann::json(
                {"shard 1: server 1, one copy only", "shard 2: server 0, its copy: server 1"}));
}

// A connection to the page's port.
int Connect(const std::string& url) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return socket;
}

// What comes until the other side ends.
std::string ReadToEnd(int socket) {
  std::string text;
  char bytes[4096];
  for (ssize_t size; (size = recv(socket, bytes, sizeof(bytes), 0)) > 0;) text.append(bytes, size);
  close(socket);
  return text;
}

TEST_F(PageTest, SlowAndOversizedClientsAreCutAndThePageGoesOn) {
  ASSERT_NO_FATAL_FAILURE(StartCoordinator({"--num_servers=1", "--num_workers=2"}));
  const std::string half = "GET / HTTP/1.1\r\n";
  std::vector<int> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(Connect(url_));
    send(slow.back(), half.data(), half.size(), MSG_NOSIGNAL);
  }
  std::vector<int> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(Connect(url_));
  const int large = Connect(url_);
  const std::string much = half + "A: " + std::string(1 << 20, 'a');
  send(large, much.data(), much.size(), MSG_NOSIGNAL);
  browser_->Open(url_);
  ASSERT_NO_FATAL_FAILURE(AwaitPolls(2));
  EXPECT_THAT(ReadToEnd(large), testing::AnyOf("", testing::StartsWith("HTTP/1.1 400")));
  for (const int socket : slow) EXPECT_EQ(ReadToEnd(socket), "");
  for (const int socket : silent) ReadToEnd(socket);  // returns once it is cut
}

}  // namespace
}  // namespace capstan
