// A job that fails in a way named on the command line: `comm_fault_program SCENARIO RANK FOLDER`.
// RANK is the one that misbehaves; each rank leaves FOLDER/record.<rank> when it is told.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cohort/comm/world.hpp"
#include "core/log.hpp"

namespace cohort {
namespace {

/// Only the rank that fails comes back from here.
void fail_as_told(World& world, std::string_view scenario) {
    if (scenario == "kill") {
        ::raise(SIGKILL);
    } else if (scenario == "freeze") {
        ::raise(SIGSTOP);
    } else if (scenario == "throw") {
        throw std::runtime_error("a part of this rank broke");
    } else if (scenario == "abort") {
        world.abort(ExitCode::kNumerical, "the loss is not finite");
    } else if (scenario == "exit") {
        ::_exit(0);
    } else if (scenario == "late") {  // computes, as far as anybody knows
        std::this_thread::sleep_for(std::chrono::seconds(60));
    }
}

/// Keeps 16 MB on the way between every two ranks, until a message brings the end: never.
void stream(World& world) {
    static const std::vector<std::byte> data(16 << 20);
    const auto start = [&](int to) {
        world.messenger()
            .start_transfer({.rank = to, .port = Port::kWorker}, Port::kWorker, 1, {}, data,
                            ChunkOrder::kForward, nullptr)
            ->release(data.size());
    };
    for (int to = 0; to < world.size(); ++to) {
        if (to != world.rank()) {
            start(to);
        }
    }
    while (true) {
        if (const auto message =
                world.messenger().mailbox(Port::kWorker).receive(Clock::Seconds(1))) {
            start(message->from.rank);
        }
    }
}

/// All wait for the culprit, which waits for FOLDER/go.
void wait_for_the_end_of_a_pause(World& world, int culprit, const std::string& folder) {
    const auto waiting =
        world.operations().begin("parameters", 12, [&] { return std::vector<int>{culprit}; });
    std::ofstream(folder + "/ready." + std::to_string(world.rank())) << ::getpid();
    if (world.rank() != culprit) {
        while (!world.messenger().mailbox(Port::kServer).receive(Clock::Seconds(1))) {
        }
        return;
    }
    while (!std::filesystem::exists(folder + "/go")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (int to = 0; to < world.size(); ++to) {
        if (to != culprit) {
            world.messenger().send({.rank = to, .port = Port::kServer}, Port::kServer, 1, {});
        }
    }
}

WorldOptions options_of(std::string_view scenario, bool culprit) {
    WorldOptions options{.stall_limit_s = 20, .lost_after_s = 2};
    if (scenario == "late" || scenario == "absent" || scenario == "pause") {
        options.stall_limit_s = 1;
    } else if (scenario == "differ" && culprit) {
        options.chunk_bytes = 4096;
    } else if (scenario == "servers") {
        options.servers = 64;
    }
    return options;
}

int run(std::string_view scenario, int culprit, const std::string& folder) {
    const bool busy = scenario.starts_with("busy-");
    scenario.remove_prefix(busy ? 5 : 0);
    const char* rank_text = std::getenv("OMPI_COMM_WORLD_RANK");
    const bool first_guess = rank_text != nullptr && std::atoi(rank_text) == culprit;
    if (first_guess && scenario == "absent") {
        return 127;
    }
    World world(options_of(scenario, first_guess));
    world.on_failure([&](ExitCode code, const std::string& reason, bool) {
        std::ofstream(folder + "/record." + std::to_string(world.rank()))
            << static_cast<int>(code) << ' ' << reason << '\n';
    });
    std::string nothing;
    if (world.agree(ExitCode::kDone, nothing) != ExitCode::kDone) {
        return 1;
    }
    std::thread traffic;
    if (busy) {
        traffic = std::thread([&] { stream(world); });
    }
    if (scenario == "pause") {
        wait_for_the_end_of_a_pause(world, culprit, folder);
        world.finalize();
        return 0;
    }
    if (world.rank() == culprit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        fail_as_told(world, scenario);
    }
    if (scenario != "well") {
        const auto waiting =
            world.operations().begin("parameters", 12, [&] { return std::vector<int>{culprit}; });
        while (!world.messenger().mailbox(Port::kServer).receive(Clock::Seconds(1))) {
        }
    }
    world.finalize();
    return 0;
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGTERM, SIG_IGN);  // mpirun's first word when a rank has died; leave in own time
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s SCENARIO RANK FOLDER\n", argv[0]);
        return 2;
    }
    try {
        return cohort::run(argv[1], std::atoi(argv[2]), argv[3]);
    } catch (const cohort::Error& error) {
        cohort::log_error("{}", error.what());
        return static_cast<int>(error.exit_code());
    } catch (const std::exception& error) {
        cohort::log_error("{}", error.what());
        return 1;
    }
}
