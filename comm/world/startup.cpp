#include "comm/world/startup.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>

#include "cohort/core/error.hpp"
#include "comm/base/leftovers.hpp"
#include "comm/world/mpi_end.hpp"
#include "core/bytes.hpp"
#include "core/system/separate_tasks.hpp"

namespace cohort {
namespace {

/// One rank's card.
struct Introduction {
    RankInfo info;
    std::uint64_t pid_space = 0;         ///< of its process number
    int leader = 0;                      ///< first world rank of its node
    std::vector<std::string> addresses;  ///< of its host, numeric
    int gpus = 0;                        ///< that it sees; 0 when its role has no use for them
    std::int64_t servers = 0;
    double stall_limit_s = 0;
    double lost_after_s = 0;
    std::int64_t chunk_bytes = 0;
    auto fields() {
        return std::tie(info, pid_space, leader, addresses, gpus, servers, stall_limit_s,
                        lost_after_s, chunk_bytes);
    }
};

/// "0-3,8".
std::string allowed_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) != 0) {
        return "unknown";
    }
    std::string text;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &set)) {
            continue;
        }
        int last = core;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) {
            ++last;
        }
        text += fmt::format("{}{}", text.empty() ? "" : ",", core);
        if (last > core) {
            text += fmt::format("-{}", last);
        }
        core = last;
    }
    return text;
}

/// Without those that every host has.
std::vector<std::string> host_addresses() {
    std::vector<std::string> found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) {
        return found;
    }
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
        const bool known = family == AF_INET || family == AF_INET6;
        std::array<char, NI_MAXHOST> text{};
        const auto size =
            static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        if (known && (one->ifa_flags & IFF_LOOPBACK) == 0 &&
            ::getnameinfo(one->ifa_addr, size, text.data(), text.size(), nullptr, 0,
                          NI_NUMERICHOST) == 0) {
            found.emplace_back(text.data());
        }
    }
    ::freeifaddrs(all);
    return found;
}

/// An address that two hosts have tells nothing.
std::vector<std::vector<std::string>> addresses_by_node(const std::vector<Introduction>& cards,
                                                        const RankMap& map, int own_rank) {
    std::map<std::string, std::set<int>> nodes;
    for (const Introduction& card : cards) {
        for (const std::string& address : card.addresses) {
            nodes[address].insert(map.ranks[static_cast<std::size_t>(card.info.rank)].node);
        }
    }
    std::vector<std::vector<std::string>> found(static_cast<std::size_t>(map.nodes()));
    for (const auto& [address, having] : nodes) {
        const int node = *having.begin();
        if (having.size() == 1 && node != map.ranks[static_cast<std::size_t>(own_rank)].node) {
            found[static_cast<std::size_t>(node)].push_back(address);
        }
    }
    return found;
}

const std::string& device_option(const WorldOptions& options, int rank) {
    return rank < options.servers ? options.server_device : options.device;
}

Introduction introduce(const WorldOptions& options, const LaunchEnv& env, int rank) {
    struct stat space {};
    const bool known = ::stat("/proc/self/ns/pid", &space) == 0;
    return {.info = {.rank = rank, .host = env.host, .pid = ::getpid(), .cores = allowed_cores()},
            .pid_space = known ? static_cast<std::uint64_t>(space.st_ino) : 0,
            .leader = rank,
            .addresses = host_addresses(),
            .gpus = gpus_for(device_option(options, rank)),
            .servers = options.servers,
            .stall_limit_s = options.stall_limit_s,
            .lost_after_s = options.lost_after_s,
            .chunk_bytes = options.chunk_bytes};
}

/// Waits without a spin; a rank that never comes ends the wait.
void finish(MPI_Request request, double limit_s) {
    const auto begin = std::chrono::steady_clock::now();
    auto pause = std::chrono::microseconds(50);
    for (int done = 0; done == 0;) {
        check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (done != 0) {
            return;
        }
        if (std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(limit_s)) {
            fail<PeerError>({.where = "start",
                             .what = "some ranks of the job did not come",
                             .expected = fmt::format("all of them within {} s", limit_s)});
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::microseconds(2000));
    }
}

std::vector<Introduction> exchange(Introduction own, MPI_Comm world, int size, double limit_s) {
    const std::vector<std::byte> bytes = encode(std::move(own));
    const int count = mpi_count(bytes.size());
    std::vector<int> counts(static_cast<std::size_t>(size));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, world, &request));
    finish(request, limit_s);
    std::vector<int> offsets(counts.size());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        offsets[i] = mpi_count(sum);
        sum += static_cast<std::uint64_t>(counts[i]);
    }
    std::vector<std::byte> all(sum);
    check_mpi(MPI_Iallgatherv(bytes.data(), count, MPI_BYTE, all.data(), counts.data(),
                              offsets.data(), MPI_BYTE, world, &request));
    finish(request, limit_s);
    std::vector<Introduction> cards;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        cards.push_back(decode<Introduction>(std::span(all).subspan(
            static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(counts[i]))));
    }
    return cards;
}

void require_option(bool good, std::string_view what, std::string_view expected, double got) {
    if (!good) {
        fail<UsageError>({.where = what,
                          .what = "not a usable value",
                          .expected = expected,
                          .got = fmt::format("{}", got)});
    }
}

/// All ranks call this with the same cards, so all of them fail or none.
void check_options(const std::vector<Introduction>& cards) {
    const Introduction& first = cards.front();
    const auto same = [&](std::string_view what, auto Introduction::*value) {
        for (std::size_t rank = 1; rank < cards.size(); ++rank) {
            if (cards[rank].*value != first.*value) {
                fail<UsageError>({.where = what,
                                  .what = "the ranks of one job differ",
                                  .expected = fmt::format("{} as on rank 0", first.*value),
                                  .got = fmt::format("{} on rank {}", cards[rank].*value, rank),
                                  .hint = "the same command line on all ranks"});
            }
        }
    };
    same("servers", &Introduction::servers);
    same("stall limit (s)", &Introduction::stall_limit_s);
    same("lost after (s)", &Introduction::lost_after_s);
    same("chunk bytes", &Introduction::chunk_bytes);
    const auto positive = [](double value) { return std::isfinite(value) && value > 0; };
    require_option(positive(first.stall_limit_s), "stall limit (s)", "more than 0",
                   first.stall_limit_s);
    require_option(positive(first.lost_after_s), "lost after (s)", "more than 0",
                   first.lost_after_s);
    require_option(first.chunk_bytes > 0 && first.chunk_bytes <= INT_MAX, "chunk bytes",
                   fmt::format("1..{}", INT_MAX), static_cast<double>(first.chunk_bytes));
    require_option(first.servers >= 0, "servers", "0 or more", static_cast<double>(first.servers));
    if (static_cast<std::int64_t>(cards.size()) <= first.servers) {
        fail<UsageError>({.where = "servers",
                          .what = "no rank is left to be a worker",
                          .expected = fmt::format("at least {} ranks", first.servers + 1),
                          .got = std::to_string(cards.size()),
                          .hint = "more ranks (mpirun -n), or fewer servers"});
    }
}

RankMap make_map(const WorldOptions& options, const std::vector<Introduction>& cards) {
    RankMap map;
    map.servers = static_cast<int>(cards.front().servers);
    std::map<int, int> node_of_leader;
    std::map<int, int> ranks_on_node;
    for (const Introduction& card : cards) {
        RankInfo info = card.info;
        info.node = node_of_leader.emplace(card.leader, static_cast<int>(node_of_leader.size()))
                        .first->second;
        info.node_rank = ranks_on_node[info.node]++;
        info.role = info.rank < map.servers ? Role::kServer : Role::kWorker;
        map.ranks.push_back(std::move(info));
    }
    for (const Introduction& card : cards) {
        const int rank = card.info.rank;
        map.ranks[static_cast<std::size_t>(rank)].device =
            device_of_rank(device_option(options, rank), map, rank, card.gpus);
    }
    return map;
}

int highest_tag() {
    void* value = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found));
    return found != 0 ? *static_cast<int*>(value) : 32767;
}

/// "Open MPI v4.1.4".
std::string library_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    check_mpi(MPI_Get_library_version(text.data(), &length));
    const std::string_view all(text.data());
    return std::string(all.substr(0, all.find_first_of(",\n")));
}

void check_joined(const LaunchEnv& env) {
    int size = 0;
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size));
    check_one_world(env, size, library_version());
}

}  // namespace

bool start_mpi(const LaunchEnv& env) {
    int started = 0;
    check_mpi(MPI_Initialized(&started));
    ::signal(SIGPIPE, SIG_IGN);  // a connection to a dead rank is an error, not the end
    int provided = MPI_THREAD_SINGLE;
    if (started != 0) {
        const bool ended = mpi_ended();
        check_mpi(MPI_Query_thread(&provided));
        if (ended || provided < MPI_THREAD_MULTIPLE) {
            fail<PeerError>({.where = "start",
                             .what = ended ? "MPI was shut down in this process before"
                                           : "MPI was started here without threads",
                             .expected = ended ? "one job per process" : "MPI_THREAD_MULTIPLE",
                             .hint = ended ? "one job, or another process"
                                           : "to start the job first, or mpi4py with "
                                             "mpi4py.rc.thread_level = 'multiple'"});
        }
        check_joined(env);
        return false;
    }
    // One-sided communication by UCX, which Open MPI 5 reports on every rank where it finds no
    // device for it; ours is in shared memory. What the user has set stays.
    ::setenv("OMPI_MCA_osc", "^ucx", 0);
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
    if (provided < MPI_THREAD_SERIALIZED) {
        fail<PeerError>({.where = "start",
                         .what = "this MPI does not allow threads",
                         .expected = "MPI_THREAD_SERIALIZED or more",
                         .got = std::to_string(provided)});
    }
    check_joined(env);
    return true;
}

bool mpi_ended() {
    int ended = 0;
    check_mpi(MPI_Finalized(&ended));
    return ended != 0;
}

StartupRoster meet(const WorldOptions& options, const LaunchEnv& env, Communicators& comms,
                   int first_rank) {
    StartupRoster roster;
    int size = 0;
    check_mpi(MPI_Comm_rank(comms.world, &roster.own_rank));
    check_mpi(MPI_Comm_size(comms.world, &size));
    const double limit = options.stall_limit_s > 0 ? 2 * options.stall_limit_s : 120;
    Introduction own = introduce(options, env, roster.own_rank);
    int processes = 0;
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &processes));
    own.info.first_rank = first_rank;
    if (processes > size && first_rank < 0) {
        check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &own.info.fleet_rank));
    }
    check_options(exchange(own, comms.world, size, limit));
    comms.open_shared();
    check_mpi(MPI_Bcast(&own.leader, 1, MPI_INT, 0, comms.node));
    const std::vector<Introduction> cards = exchange(own, comms.world, size, limit);
    roster.map = make_map(options, cards);
    roster.addresses = addresses_by_node(cards, roster.map, roster.own_rank);
    roster.tag_limit = highest_tag();
    if (own.leader == roster.own_rank) {
        remove_leftovers();
    }
    for (const Introduction& card : cards) {
        const bool other = card.info.rank != roster.own_rank;
        if (other && card.leader == own.leader && card.pid_space == own.pid_space) {
            roster.same_pids.push_back(card.info.rank);
        }
    }
    return roster;
}

StartupRoster alone(const WorldOptions& options, const LaunchEnv& env) {
    const std::vector<Introduction> cards = {introduce(options, env, 0)};
    check_options(cards);
    return {.map = make_map(options, cards)};
}

}  // namespace cohort
