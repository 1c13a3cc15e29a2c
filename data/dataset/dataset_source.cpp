#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/data/dataset.hpp"

#include "data/dataset/dataset_layout.hpp"
#include "data/file/file_io.hpp"
#include "data/hdf5/child_trial.hpp"
#include "data/hdf5/hdf5_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace cohort {

namespace {

/// One group of a dataset file.
class DatasetSource final : public SampleSource {
public:
    DatasetSource(const std::string& path, const std::string& group, Hdf5Thread& thread)
        : thread_(thread), open_(thread.run([&] {
              try_in_child(path, [&] { (void)open_group(path, group); });
              return open_group(path, group);
          })) {}
    DatasetSource(const DatasetSource&) = delete;
    DatasetSource& operator=(const DatasetSource&) = delete;
    ~DatasetSource() override {
        thread_.clean_up([this] {
            open_.samples.reset();
            open_.file.reset();
        });
    }

    [[nodiscard]] const SampleSetInfo& info() const override { return open_.info; }

    [[nodiscard]] std::string where() const override { return open_.where; }

    [[nodiscard]] RawChunk read_chunk(std::int64_t index) override {
        const SampleSetInfo& about = open_.info;
        check_invariant(index >= 0 && index < about.chunks(), "the chunk exists");
        RawChunk chunk;
        chunk.first_sample = index * about.chunk_samples;
        chunk.samples = std::min(about.chunk_samples, about.samples - chunk.first_sample);
        chunk.data.resize(static_cast<std::size_t>(chunk.samples) * about.sample_bytes());
        const auto part = [&](const auto& all, std::int64_t each) {
            const auto first = all.begin() + chunk.first_sample * each;
            return std::vector(first, first + chunk.samples * each);
        };
        chunk.labels = part(open_.labels, open_.labels.empty() ? 0 : 1);
        chunk.targets = part(open_.targets, about.targets);
        thread_.run([&] { read_samples(open_, chunk.first_sample, chunk.samples, chunk.data); });
        check(index, chunk);
        return chunk;
    }

private:
    void check(std::int64_t index, const RawChunk& chunk) {
        const std::uint32_t checksum = crc32_of(chunk.data);
        {
            const std::lock_guard lock(mutex_);
            compare_chunk(open_.checksums[static_cast<std::size_t>(index)], checksum,
                          chunk.first_sample, chunk.samples, open_.where);
        }
        check_values(chunk.data, open_.info, chunk.first_sample, open_.where);
    }

    Hdf5Thread& thread_;
    OpenGroup open_;    // handles are used and closed on the HDF5 thread
    std::mutex mutex_;  // of open_.checksums
};

GroupChecksum group_checksum(SampleSource& source) {
    GroupChecksum checksum;
    const SampleSetInfo& info = source.info();
    for (std::int64_t index = 0; index < info.chunks(); ++index) {
        const RawChunk chunk = source.read_chunk(index);
        checksum.samples = crc32_of(chunk.data, checksum.samples);
        checksum.labels = crc32_of(std::as_bytes(std::span(chunk.labels)), checksum.labels);
        checksum.labels = crc32_of(std::as_bytes(std::span(chunk.targets)), checksum.labels);
    }
    return checksum;
}

/// Names the data set whose entry differs; both texts are lists of `name:value`.
void compare_checksums(const std::string& path, const std::string& recorded,
                       const std::string& computed) {
    for (const char* name : {"train/samples", "train/labels", "train/targets", "test/samples",
                             "test/labels", "test/targets", kVocabulary}) {
        const std::string expected = checksum_entry(recorded, name);
        const std::string got = checksum_entry(computed, name);
        require_file(expected == got, fmt::format("{}:/{}", path, name), "the checksum differs",
                     expected.empty() ? "nothing" : expected, got);
    }
}

void check_vocabulary(const std::string& path, const SampleSetInfo& info) {
    if (info.vocabulary != nullptr) {
        const std::string where = fmt::format("{}:/{}", path, kVocabulary);
        const std::int64_t size = make_tokenizer(*info.vocabulary, where)->size();
        require_file(size == info.classes, where, "the vocabulary does not fit the classes",
                     fmt::format("{} tokens", info.classes), std::to_string(size));
    }
}

}  // namespace

std::unique_ptr<SampleSource> open_dataset(const std::string& path, const std::string& group,
                                           Hdf5Thread& thread) {
    return std::make_unique<DatasetSource>(path, group, thread);
}

DatasetCheck verify_dataset(const std::string& path, Hdf5Thread& thread) {
    const std::unique_ptr<SampleSource> train = open_dataset(path, kTrainGroup, thread);
    const std::unique_ptr<SampleSource> test = open_dataset(path, kTestGroup, thread);
    DatasetCheck check;
    check.train_samples = train->info().samples;
    check.test_samples = test->info().samples;
    const GroupChecksum train_sum = group_checksum(*train);
    const GroupChecksum test_sum = group_checksum(*test);
    check.checksum = checksum_text(train_sum, test_sum, train->info());
    check_vocabulary(path, train->info());
    const std::string recorded = thread.run([&]() -> std::string {
        const Hdf5Handle file = hdf5_open_file(path);
        return hdf5_has_attribute(file.id(), kChecksumAttribute, path)
                   ? hdf5_read<std::string>(file.id(), kChecksumAttribute, path)
                   : "";
    });
    check.checksum_recorded = !recorded.empty();
    if (check.checksum_recorded) {
        compare_checksums(path, recorded, check.checksum);
    }
    return check;
}

}  // namespace cohort
