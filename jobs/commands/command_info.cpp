#include <cstdio>

#include "cohort/data/dataset.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/formats/network.hpp"
#include "cohort/tensor/device.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"
#include "jobs/commands/facts.hpp"
#include "session/model_input.hpp"

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
        value(app, "--device", device_, "Device to describe: auto, cpu, cuda or cuda:INDEX")
            ->type_name("DEVICE");
    }

    ExitCode run(const CommandContext& context) override {
        need(!verify_ || !data_.empty(), "--verify", "there is nothing to verify", "--data FILE");
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

    std::string data_;
    std::string model_;
    std::string device_ = "auto";
    bool verify_ = false;
};

}  // namespace

void add_info_command(const CommandGroup& all) {
    all.add<InfoCommand>(
        "info", "Versions and machine; on request also a dataset and the layers of a model");
}

}  // namespace cohort
