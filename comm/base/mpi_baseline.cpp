#include "comm/base/mpi_baseline.hpp"

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <limits>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "comm/base/communicators.hpp"
#include "core/system/process_usage.hpp"

namespace cohort {
namespace {

/// MPI from here to the end of the object's life.
class MpiSession {
public:
    MpiSession() {
        check_mpi(MPI_Init(nullptr, nullptr));
        check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
        check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size));
    }
    MpiSession(const MpiSession&) = delete;
    MpiSession& operator=(const MpiSession&) = delete;
    ~MpiSession() { MPI_Finalize(); }

    int rank = 0;
    int size = 1;
};

void check_pattern(const BaselinePattern& pattern) {
    const std::int64_t unit = std::int64_t{4} * pattern.servers;
    constexpr std::int64_t kMost = std::numeric_limits<int>::max() - 3;
    if (pattern.servers < 1 || pattern.bytes < unit || pattern.bytes > kMost ||
        pattern.bytes % unit != 0 || pattern.repetitions < 1 || pattern.warmup < 0) {
        fail<UsageError>({.where = "plain MPI",
                          .what = "a pattern that cannot be measured",
                          .expected = fmt::format("a multiple of {} bytes up to {}", unit, kMost),
                          .got = std::to_string(pattern.bytes)});
    }
}

void wait_all(std::vector<MPI_Request>& requests) {
    check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    requests.clear();
}

/// Times `once(repetition)`, on all ranks at once, and collects on rank 0.
BaselineTimes measure_pattern(const MpiSession& mpi, const BaselinePattern& pattern,
                              const std::function<void(int)>& once,
                              const std::function<bool()>& correct) {
    const SteadyClock clock;
    BaselineTimes times{.rank = mpi.rank, .ranks = mpi.size};
    double cpu = 0;
    for (int repetition = 0; repetition < pattern.warmup + pattern.repetitions; ++repetition) {
        if (repetition == pattern.warmup) {
            check_mpi(MPI_Barrier(MPI_COMM_WORLD));
            cpu = process_cpu_seconds();
        }
        const auto start = clock.now();
        once(repetition);
        if (repetition >= pattern.warmup) {
            times.seconds.push_back((clock.now() - start).count());
        }
    }
    cpu = process_cpu_seconds() - cpu;
    int right = correct() ? 1 : 0;
    int all_right = 0;
    check_mpi(MPI_Reduce(&cpu, &times.cpu_seconds, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
    check_mpi(MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    times.correct = all_right == 1;
    return times;
}

/// One rank's part in the pattern of parameter servers.
class Streams {
public:
    Streams(const MpiSession& mpi, const BaselinePattern& pattern)
        : servers_(pattern.servers),
          workers_(mpi.size - pattern.servers),
          rank_(mpi.rank),
          part_(static_cast<std::size_t>(pattern.bytes / 4 / pattern.servers)),
          sent_(serves() ? part_ : part_ * static_cast<std::size_t>(servers_)),
          received_(part_ * static_cast<std::size_t>(serves() ? workers_ : servers_)) {}

    void once(int repetition) {
        for (std::size_t at = 0; at < sent_.size(); at += part_) {
            sent_[at] = static_cast<float>(repetition + rank_);
        }
        last_ = repetition;
        if (serves()) {
            receive_all(servers_, workers_);
            wait_all(requests_);
            send_all(servers_, workers_);
        } else {
            receive_all(0, servers_);
            send_all(0, servers_);
        }
        wait_all(requests_);
    }

    [[nodiscard]] bool correct() const {
        const int first = serves() ? servers_ : 0;
        for (int i = 0; i < (serves() ? workers_ : servers_); ++i) {
            if (received_[static_cast<std::size_t>(i) * part_] !=
                static_cast<float>(last_ + first + i)) {
                return false;
            }
        }
        return true;
    }

private:
    [[nodiscard]] bool serves() const { return rank_ < servers_; }

    void receive_all(int first, int count) {
        for (int i = 0; i < count; ++i) {
            check_mpi(MPI_Irecv(received_.data() + static_cast<std::size_t>(i) * part_,
                                static_cast<int>(part_), MPI_FLOAT, first + i, 0, MPI_COMM_WORLD,
                                &requests_.emplace_back()));
        }
    }
    void send_all(int first, int count) {
        for (int i = 0; i < count; ++i) {
            const float* from = sent_.data() + (serves() ? 0 : static_cast<std::size_t>(i) * part_);
            check_mpi(MPI_Isend(from, static_cast<int>(part_), MPI_FLOAT, first + i, 0,
                                MPI_COMM_WORLD, &requests_.emplace_back()));
        }
    }

    int servers_;
    int workers_;
    int rank_;
    std::size_t part_;  // floats
    std::vector<float> sent_;
    std::vector<float> received_;
    std::vector<MPI_Request> requests_;
    int last_ = 0;
};

}  // namespace

BaselineTimes mpi_baseline_streams(const BaselinePattern& pattern) {
    check_pattern(pattern);
    const MpiSession mpi;
    if (mpi.size <= pattern.servers) {
        fail<UsageError>({.where = "plain MPI",
                          .what = "there is no worker",
                          .expected = fmt::format("at least {} ranks", pattern.servers + 1),
                          .got = std::to_string(mpi.size),
                          .hint = "mpirun -n"});
    }
    Streams streams(mpi, pattern);
    return measure_pattern(
        mpi, pattern, [&streams](int repetition) { streams.once(repetition); },
        [&streams] { return streams.correct(); });
}

BaselineTimes mpi_baseline_all_reduce(const BaselinePattern& pattern) {
    check_pattern(pattern);
    const MpiSession mpi;
    const auto floats = static_cast<std::size_t>(pattern.bytes / 4);
    std::vector<float> sent(floats);
    std::vector<float> sums(floats);
    for (std::size_t i = 0; i < floats; ++i) {
        sent[i] = static_cast<float>((mpi.rank + 1) * static_cast<int>(i % 5));
    }
    return measure_pattern(
        mpi, pattern,
        [&](int) {
            check_mpi(MPI_Allreduce(sent.data(), sums.data(), static_cast<int>(floats), MPI_FLOAT,
                                    MPI_SUM, MPI_COMM_WORLD));
        },
        [&] {
            for (std::size_t i = 0; i < floats; ++i) {
                const int wanted = mpi.size * (mpi.size + 1) / 2 * static_cast<int>(i % 5);
                if (sums[i] != static_cast<float>(wanted)) {
                    return false;
                }
            }
            return true;
        });
}

std::string mpi_library_version() {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    check_mpi(MPI_Get_library_version(text.data(), &length));
    const std::string line(text.data());
    return line.substr(0, line.find('\n'));
}

}  // namespace cohort
