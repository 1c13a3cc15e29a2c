#include <cstdio>

#include "cohort/data/dataset.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/model/slow_layers.hpp"
#include "cohort/networks/network.hpp"
#include "cohort/tensor/device.hpp"
#include "jobs/cli/facts.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "sched/session/model_input.hpp"
#include "train/bench/engine_bench.hpp"

namespace cohort {
namespace {

class InfoCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("--data", data_, "Dataset file to describe too (HDF5, see docs/data.md)")
            ->type_name("FILE");
        app.add_flag("--verify", verify_, "Read all of --data and compare with its checksum");
        app.add_option("--model", model_,
                       "Network whose layers to list, for the samples of --data, else for 3x32x32 "
                       "and 10 classes, of text for 35 of 28,782 tokens, FILE.onnx for its own")
            ->type_name("NAME");
        app.add_flag("--speed", speed_,
                     "Time some training steps of --model on one core and compare its layers with "
                     "the core's product of matrices");
        value(app, "--device", device_, "Device to describe: auto, cpu, cuda or cuda:INDEX")
            ->type_name("DEVICE");
    }

    ExitCode run(const CommandContext& context) override {
        need(!verify_ || !data_.empty(), "--verify", "there is nothing to verify", "--data FILE");
        need(!speed_ || !model_.empty(), "--speed", "no network is given", "--model NAME");
        for (const std::string& line : build_facts()) {
            print_line("{}", line);
        }
        for (const std::string& line : machine_facts(context.env)) {
            print_line("{}", line);
        }
        print_line("device {}", make_device(device_, context.env.cores)->description());
        const ModelSource source{.model = model_};
        const ModelInput input = data_.empty()
                                     ? usual_input(source, {.shape = {3, 32, 32}, .classes = 10})
                                     : model_input(print_dataset());
        if (!model_.empty()) {
            const Graph graph = make_graph(source, input);
            print_line("{}", model_facts(graph));
            std::fputs(describe(graph).c_str(), stdout);
            if (speed_) {
                print_speed(graph, tuning_file(context.env));
            }
        }
        return ExitCode::kDone;
    }

private:
    SampleSetInfo print_dataset() const {
        Hdf5Thread hdf5;
        SampleSetInfo train = open_dataset(data_, "train", hdf5)->info();
        print_line("{}", dataset_facts("train", train));
        print_line("{}", dataset_facts("test", open_dataset(data_, "test", hdf5)->info()));
        if (verify_) {
            const DatasetCheck check = verify_dataset(data_, hdf5);
            print_line("checksum {}: {}", check.checksum,
                       check.checksum_recorded ? "matches the file's" : "the file has none");
        }
        return train;
    }

    static void print_speed(const Graph& graph, const std::string& tuning_file) {
        constexpr std::int64_t kBatch = 8;  // large images fit the memory
        const EngineBenchResult result = bench_engine({.batch = kBatch,
                                                       .steps = SlowLayerWatch::kSteps,
                                                       .warmup_steps = SlowLayerWatch::kSteps + 1,
                                                       .device = "cpu",
                                                       .precision = PrecisionChoice::kF32,
                                                       .tuning_file = tuning_file,
                                                       .slow_layers = true},
                                                      graph);
        print_line(
            "speed on one core: {:.1f} GF/s in training steps of {} samples, {:.1f} GF/s in "
            "the core's product of matrices",
            result.gflop_per_second, kBatch, result.product_gflop_per_second);
        print_line("{}", result.slow_layers.empty()
                             ? "no layer that counts is slow on this processor"
                             : result.slow_layers);
    }

    std::string data_;
    std::string model_;
    std::string device_ = "auto";
    bool verify_ = false;
    bool speed_ = false;
};

}  // namespace

void add_info_command(const CommandGroup& all) {
    all.add<InfoCommand>(
        "info", "Versions and machine; on request also a dataset and the layers of a model");
}

}  // namespace cohort
