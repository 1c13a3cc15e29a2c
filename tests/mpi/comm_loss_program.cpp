// A job that goes on without a worker, for comm_loss_test.py:
//   mpirun --enable-recovery -n N comm_loss_program WORK HOW VICTIM DELAY_MS FOLDER [SERVERS]
// All ranks do WORK (see below); after DELAY_MS the victim kills or freezes itself. Rank 0 excludes
// it and names the members that are left, or all of them when it came back; those show that new
// work among them is right, each leaves FOLDER/done.<rank>, and the job ends. With the work "ended"
// rank 0 watches no longer, as at the end of a run: it excludes the victim by itself.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "comm/allreduce/all_reduce.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"
#include "support/core/patience.hpp"

namespace cohort {
namespace {

constexpr std::uint16_t kNews = 1;
constexpr std::uint16_t kBlock = 2;
constexpr std::int64_t kFloats = 300'000;
constexpr std::size_t kBlockBytes = 3'000'000;
constexpr std::uint64_t kRounds = 4;
using test::kPatience;

struct Job {
    std::string work;  ///< idle, transfers; making, making-mpi; ring, halves, leaders, pairs, mpi
    std::string how;   ///< kill, freeze
    int victim = 0;
    int delay_ms = 0;
    std::string folder;
    int servers = 0;
};

/// Who belongs to the job from now on.
struct News {
    std::uint64_t epoch = 0;
    std::vector<int> members;
    auto fields() { return std::tie(epoch, members); }
};

void leave_mark(const Job& job, const std::string& name, const std::string& text) {
    const std::string file = job.folder + "/" + name;
    std::ofstream(file + ".new") << text << '\n';
    std::rename((file + ".new").c_str(), file.c_str());
}

[[noreturn]] void fail_test(const std::string& what) {
    throw std::runtime_error("WRONG: " + what);
}

/// Rank 0's part: the decisions.
class Decider {
public:
    Decider(World& world, const Job& job) : world_(world), job_(job) {
        world.membership().watch([this](const RankEvent& event) { decide(event); });
    }

private:
    void decide(const RankEvent& event) {
        Membership& membership = world_.membership();
        leave_mark(job_, event.kind == RankEvent::Kind::kSilent ? "silent" : "returned",
                   std::to_string(event.rank) + (event.dead ? " dead" : " alive"));
        if (event.kind == RankEvent::Kind::kSilent) {
            membership.exclude(event.rank);
        } else {
            membership.admit(event.rank);
        }
        News news{.epoch = membership.epoch(), .members = {}};
        for (int rank = 0; rank < world_.size(); ++rank) {
            if (!membership.excluded(rank)) {
                news.members.push_back(rank);
            }
        }
        for (const int rank : news.members) {
            world_.messenger().send({rank, Port::kWorker}, Port::kCoordinator, kNews, encode(news));
        }
    }

    World& world_;
    const Job& job_;
};

/// One piece of memory for each sender: what it holds does not matter.
class Scratch final : public TransferSink {
public:
    explicit Scratch(int ranks) : blocks_(static_cast<std::size_t>(ranks)) {}
    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override {
        auto& block = blocks_[static_cast<std::size_t>(announcement.from.rank)];
        block.resize(bytes);
        return block;
    }

private:
    std::vector<std::vector<std::byte>> blocks_;
};

/// Every block that arrives.
class Blocks final : public TransferSink {
public:
    std::span<std::byte> accept(const Message&, std::uint64_t bytes) override {
        return blocks_.emplace_back(bytes);
    }
    [[nodiscard]] const std::deque<std::vector<std::byte>>& all() const { return blocks_; }

private:
    std::deque<std::vector<std::byte>> blocks_;
};

class Worker {
public:
    Worker(World& world, const Job& job) : world_(world), job_(job), old_blocks_(world.size()) {
        world.messenger().set_sink(Port::kServer, &old_blocks_);
        members_.resize(static_cast<std::size_t>(world.size()));
        std::iota(members_.begin(), members_.end(), 0);
    }

    void run() {
        bool proved = false;
        while (!proved) {
            work_until_news();
            members_ = news_.members;
            prove();
            proved = job_.how == "kill" || all_here();  // one that froze comes back
        }
        leave_mark(job_, "done." + std::to_string(world_.rank()),
                   std::to_string(world_.membership().epoch()));
    }

private:
    [[nodiscard]] bool all_here() const {
        return members_.size() == static_cast<std::size_t>(world_.size());
    }

    void work_until_news() {
        if (job_.work == "transfers") {
            stream();
            return;
        }
        if (job_.work != "idle" && all_here()) {
            while (!look_for_news(Clock::Seconds(0))) {
                ring_rounds(job_.work.starts_with("making") ? 1 : 1'000'000, true);
                if (broken_ && !wait_for_news()) {
                    fail_test("no news after a broken ring");
                }
                if (broken_) {
                    return;
                }
            }
            return;
        }
        if (!wait_for_news()) {
            fail_test("no news");
        }
    }

    [[nodiscard]] bool look_for_news(Clock::Seconds limit) {
        const auto message = world_.messenger().mailbox(Port::kWorker).receive(limit);
        if (message) {
            news_ = decode<News>(message->body);
        }
        return message.has_value();
    }
    [[nodiscard]] bool wait_for_news() {
        const auto named = world_.operations().begin("news", 0, {}, WaitLimit::kNone);
        return look_for_news(kPatience);
    }

    [[nodiscard]] AllReduceOptions ring_options() const {
        AllReduceOptions options{.algorithm = AllReduceAlgorithm::kRing,
                                 .bucket_bytes = 65536,
                                 .nodes = {},
                                 .scope = {.epoch = news_.epoch}};
        const auto node_of = [this](int rank) { return job_.work == "leaders" ? rank : rank / 2; };
        if (job_.work == "leaders" || job_.work == "halves" || job_.work == "pairs") {
            for (const int rank : members_) {
                options.nodes.push_back(node_of(rank));
            }
        }
        if (job_.work == "pairs") {
            options.algorithm = AllReduceAlgorithm::kOrdered;
        } else if (job_.work.ends_with("mpi")) {
            options.algorithm = AllReduceAlgorithm::kMpi;
        }
        return options;
    }

    static float value(int rank, std::int64_t index, std::uint64_t round) {
        return static_cast<float>((static_cast<std::int64_t>(round) * 7 + rank * 13 + index * 3) %
                                  101);
    }

    /// Makes a ring and runs rounds in it; says whether it broke in broken_.
    void ring_rounds(std::uint64_t rounds, bool may_break) {
        broken_ = false;
        try {
            const auto ring = make_all_reduce(world_, members_, kFloats, ring_options());
            for (std::uint64_t round = 1; round <= rounds && !broken_; ++round) {
                broken_ = !ring_round(*ring, round);
            }
        } catch (const RingBroken&) {
            broken_ = true;
        }
        if (broken_ && !may_break) {
            fail_test("a ring of living members broke");
        }
    }

    [[nodiscard]] bool ring_round(AllReduce& ring, std::uint64_t round) {
        const std::span<float> buffer = ring.begin(round);
        for (std::int64_t i = 0; i < kFloats; ++i) {
            buffer[static_cast<std::size_t>(i)] = value(world_.rank(), i, round);
        }
        ring.ready(kFloats / 2, kFloats);
        ring.finish(pack_summary(world_.rank()));
        const auto ranks = unpack_summaries<int>(ring.wait());
        if (!ranks) {
            return false;
        }
        if (*ranks != members_) {
            fail_test("summaries");
        }
        for (std::int64_t i = 0; i < kFloats; i += 997) {
            float sum = 0;
            for (const int rank : members_) {
                sum += value(rank, i, round);
            }
            if (buffer[static_cast<std::size_t>(i)] != sum) {
                fail_test("sum of round " + std::to_string(round));
            }
        }
        return true;
    }

    void start_block(int to, Port port, unsigned char mark) {
        auto data = std::make_shared<std::vector<std::byte>>(kBlockBytes, std::byte{mark});
        const auto transfer = world_.messenger().start_transfer(
            {to, port}, Port::kWorker, kBlock, {}, *data, ChunkOrder::kBackward, data);
        transfer->release(data->size());
    }

    /// Keeps blocks on the way between all ranks until there is news.
    void stream() {
        for (const int rank : members_) {
            start_block(rank, Port::kServer, 1);
        }
        while (!look_for_news(Clock::Seconds(0))) {
            if (const auto block =
                    world_.messenger().mailbox(Port::kServer).receive(Clock::Seconds(0.002))) {
                start_block(block->from.rank, Port::kServer, 1);
            }
        }
    }

    /// New work among the members is right.
    void prove() {
        if (job_.work == "idle" || job_.work == "transfers") {
            exchange_blocks();
        } else {
            ring_rounds(kRounds, false);
        }
    }

    /// A block to and from every member, on a port of its own for each time.
    void exchange_blocks() {
        const Port port = Port::kCoordinator;
        world_.messenger().set_sink(port, &proof_blocks_);
        const auto mark = static_cast<unsigned char>(10 + news_.epoch);
        const std::size_t before = proved_;
        // Nobody sends before all can receive.
        meet();
        for (const int rank : members_) {
            start_block(rank, port, mark);
        }
        const auto named = world_.operations().begin("blocks", news_.epoch);
        while (proved_ < before + members_.size()) {
            const auto message = world_.messenger().mailbox(port).receive(kPatience);
            if (!message) {
                fail_test("a block of a member is missing");
            }
            proved_ += message->kind == kBlock ? 1 : 0;
        }
        for (std::size_t i = before; i < proof_blocks_.all().size(); ++i) {
            for (const std::byte byte : proof_blocks_.all()[i]) {
                if (byte != std::byte{mark}) {
                    fail_test("bytes of a block");
                }
            }
        }
    }

    /// A ring round is a barrier of the members.
    void meet() {
        const auto ring = make_all_reduce(
            world_, members_, 16,
            {.algorithm = AllReduceAlgorithm::kRing, .scope = {.epoch = news_.epoch}});
        static_cast<void>(ring->begin(1));
        ring->finish({});
        if (!ring->wait()) {
            fail_test("a ring of living members broke");
        }
    }

    World& world_;
    const Job& job_;
    Scratch old_blocks_;
    Blocks proof_blocks_;
    std::vector<int> members_;
    News news_;
    bool broken_ = false;
    std::size_t proved_ = 0;
};

/// The rank is told that the victim does not belong to the job any more.
void await_exclusion(World& world, const Job& job) {
    const auto limit = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
    while (!world.membership().excluded(job.victim)) {
        if (std::chrono::steady_clock::now() > limit) {
            fail_test("the victim is not excluded");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    leave_mark(job, "done." + std::to_string(world.rank()),
               std::to_string(world.membership().epoch()));
}

void run(const Job& job) {
    World world({.servers = job.servers, .stall_limit_s = 20, .lost_after_s = 2});
    world.on_failure([&](ExitCode code, const std::string& reason, bool) {
        leave_mark(job, "record." + std::to_string(world.rank()),
                   std::to_string(static_cast<int>(code)) + " " + reason);
    });
    std::optional<Decider> decider;
    if (world.rank() == 0) {
        decider.emplace(world, job);
    }
    if (world.rank() == 0 && job.work == "ended") {
        world.membership().watch({});
    }
    auto worker = std::make_unique<Worker>(world, job);
    leave_mark(job, "pid." + std::to_string(world.rank()), std::to_string(::getpid()));
    std::string nothing;
    static_cast<void>(world.agree(ExitCode::kDone, nothing));
    if (world.rank() == job.victim) {
        std::thread([&job] {
            std::this_thread::sleep_for(std::chrono::milliseconds(job.delay_ms));
            ::raise(job.how == "kill" ? SIGKILL : SIGSTOP);
        }).detach();
    }
    try {
        if (job.work == "ended") {
            await_exclusion(world, job);
        } else {
            worker->run();
        }
        world.finalize();
    } catch (...) {
        world.abort(std::current_exception());
    }
    static_cast<void>(worker.release());  // MPI may have a hand on its blocks
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
    ::signal(SIGTERM, SIG_IGN);
    if (argc < 6) {
        std::fprintf(stderr, "usage: %s WORK HOW VICTIM DELAY_MS FOLDER [SERVERS]\n", argv[0]);
        return 2;
    }
    try {
        cohort::run({.work = argv[1],
                     .how = argv[2],
                     .victim = std::atoi(argv[3]),
                     .delay_ms = std::atoi(argv[4]),
                     .folder = argv[5],
                     .servers = argc > 6 ? std::atoi(argv[6]) : 0});
        return 0;
    } catch (const std::exception& error) {
        cohort::log_error("{}", error.what());
        return 1;
    }
}
