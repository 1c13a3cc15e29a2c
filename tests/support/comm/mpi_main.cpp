// main of the tests that run on several ranks: `mpirun -n 4 program --ranks 4 [gtest options]`.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "support/comm/mpi_test.hpp"

namespace cohort {
namespace {

std::unique_ptr<World>& world_slot() {
    static std::unique_ptr<World> world;
    return world;
}

/// After each test: every rank learns whether all passed, and nobody runs ahead.
class Together final : public testing::EmptyTestEventListener {
    void OnTestEnd(const testing::TestInfo& info) override {
        const bool failed = info.result()->Failed();
        std::string message = failed ? "failed here" : "";
        const ExitCode worst =
            test_world().agree(failed ? ExitCode::kNumerical : ExitCode::kDone, message);
        if (worst != ExitCode::kDone && !failed) {
            ADD_FAILURE() << "on another rank " << message;
        }
    }
};

/// What a rank other than 0 prints: its failures.
class FailuresOnly final : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed()) {
            std::fprintf(stderr, "rank %d: %s:%d: %s\n", test_world().rank(),
                         result.file_name() != nullptr ? result.file_name() : "unknown file",
                         result.line_number(), result.message());
        }
    }
};

int run(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc != 3 || std::string_view(argv[1]) != "--ranks") {
        std::fprintf(stderr, "usage: mpirun -n N %s --ranks N\n", argv[0]);
        return 2;
    }
    world_slot() = std::make_unique<World>(WorldOptions{.stall_limit_s = 10});
    World& world = test_world();
    if (world.size() != std::atoi(argv[2])) {
        std::fprintf(stderr, "the world has %d ranks instead of %s\n", world.size(), argv[2]);
        world.finalize();
        return 1;
    }
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    if (world.rank() != 0) {
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new FailuresOnly);
    }
    listeners.Append(new Together);
    const int failed = RUN_ALL_TESTS();
    world.finalize();
    world_slot().reset();
    return failed;
}

}  // namespace

World& test_world() {
    return *world_slot();
}

}  // namespace cohort

int main(int argc, char** argv) {
    ::signal(SIGPIPE, SIG_IGN);  // a connection to a dead rank is an error, not the end
    try {
        return cohort::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
