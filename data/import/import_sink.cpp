#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/units.hpp"

#include "data/dataset/dataset_layout.hpp"
#include "data/import/import_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort {

namespace {

/// The shape to store for samples that a file gives as `found`.
std::vector<std::int64_t> stored_shape(const ImportFile& file, std::vector<std::int64_t> found,
                                       const std::vector<std::int64_t>& wanted) {
    if (!wanted.empty()) {
        require_file(elements_of(wanted) == elements_of(found), file.path,
                     "the samples do not fill the given shape", format_shape(wanted),
                     format_shape(found));
        return wanted;
    }
    if (found.size() == 2) {
        found.insert(found.begin(), 1);
    }
    require_file(found.size() == 1 || found.size() == 3, file.path, "unusable sample shape",
                 "[F], [H,W] or [C,H,W]", format_shape(found), "--shape");
    return found;
}

}  // namespace

ImportSink::ImportSink(const ImportOptions& options, OutputFile output, Hdf5Thread& thread,
                       std::string source)
    : options_(options),
      output_(std::move(output)),
      thread_(thread),
      counting_(options.test_fraction > 0) {
    spec_.classes = options.classes;
    spec_.source = std::move(source);
    spec_.chunk_samples = options.chunk_samples;
    spec_.compress_level = options.compress_level;
}

ImportSink::~ImportSink() = default;

void ImportSink::begin(const ImportPair& files, std::vector<std::int64_t> found, SampleType type,
                       std::int64_t classes, std::int64_t targets) {
    const ImportFile& file = files.samples;
    require_file(std::ranges::count(found, 0) == 0, file.path, "the samples are empty", "",
                 format_shape(found));
    const std::vector<std::int64_t> shape = stored_shape(file, std::move(found), options_.shape);
    files_ = files;
    in_file_ = 0;
    if (!writer_) {
        spec_.sample_shape = shape;
        spec_.type = type;
        spec_.classes = spec_.classes == 0 ? classes : spec_.classes;
        spec_.targets = targets;
        if (targets > 0 && options_.classes > 0) {
            fail<UsageError>({.where = "--classes",
                              .what = "the labels are numbers to predict, not classes",
                              .expected = "no --classes",
                              .got = fmt::format("{}, {} in {}", options_.classes,
                                                 counted(targets, "target"), files.labels.path)});
        }
        if (!counting_) {
            writer_ = std::make_unique<DatasetWriter>(output_, spec_, thread_);
        }
        return;
    }
    const auto text = [](const std::vector<std::int64_t>& extents, SampleType kind,
                         std::int64_t numbers) {
        return fmt::format("{} of {}{}", format_shape(extents), word_of(kind),
                           numbers > 0 ? " with " + counted(numbers, "target") : "");
    };
    require_file(shape == spec_.sample_shape && type == spec_.type && targets == spec_.targets,
                 file.path, "samples differ from those of the first file",
                 text(spec_.sample_shape, spec_.type, spec_.targets), text(shape, type, targets));
}

void ImportSink::check_labels(std::span<const std::int32_t> labels) const {
    const auto wrong = std::ranges::find_if(labels, [&](std::int32_t label) {
        return label < 0 || (spec_.classes > 0 && label >= spec_.classes);
    });
    if (wrong != labels.end()) {
        fail<FileError>({.where = files_.labels.path,
                         .what = fmt::format("the label of sample {} is out of range",
                                             in_file_ + (wrong - labels.begin())),
                         .expected = spec_.classes > 0 ? fmt::format("0 to {}", spec_.classes - 1)
                                                       : "0 or more",
                         .got = fmt::format("{}", *wrong)});
    }
}

/// A number of classes that was not given must leave each class two samples on average.
void ImportSink::check_classes() const {
    constexpr std::int64_t kAlwaysFine = 100;
    const std::int64_t samples =
        writer_->samples(DatasetGroup::kTrain) + writer_->samples(DatasetGroup::kTest);
    const std::int64_t most = std::max(kAlwaysFine, samples / 2);
    require_file(spec_.classes != 0 || spec_.targets > 0 || largest_.label < most, largest_.file,
                 fmt::format("the labels seem to be ids: they make {} classes of {} samples",
                             std::int64_t{largest_.label} + 1, samples),
                 fmt::format("labels from 0 to at most {}", most - 1),
                 fmt::format("{} for sample {}", largest_.label, largest_.sample),
                 "labels numbered from 0, the column of the labels (--label-column), or "
                 "--classes when there are that many");
}

void ImportSink::append(std::span<const std::byte> samples, std::span<const std::int32_t> labels,
                        std::span<const float> targets) {
    check_labels(labels);
    if (counting_) {
        return count(labels, targets);
    }
    check_targets(targets, spec_.targets, in_file_, files_.labels.path);
    const auto largest = std::ranges::max_element(labels);
    if (largest != labels.end() && *largest > largest_.label) {
        largest_ = {*largest, in_file_ + (largest - labels.begin()), files_.labels.path};
    }
    check_values(samples, {.sample_shape = spec_.sample_shape, .type = spec_.type}, in_file_,
                 files_.samples.path);
    if (options_.test_fraction > 0) {
        split(samples, labels, targets);
    } else {
        writer_->append(files_.samples.group, samples, labels, targets);
    }
    in_file_ += static_cast<std::int64_t>(samples.size() / sample_bytes());
}

void ImportSink::count(std::span<const std::int32_t> labels, std::span<const float> targets) {
    split_.count(labels);
    if (spec_.targets > 0) {
        split_.count_unlabelled(static_cast<std::int64_t>(targets.size()) / spec_.targets);
    }
    in_file_ += static_cast<std::int64_t>(labels.size());
}

void ImportSink::draw_split() {
    require_file(split_.samples() > 0, options_.output, "the inputs hold no samples", "", "");
    require_file(split_.samples() > 1, files_.samples.path,
                 "a single sample cannot be split into train and test", "2 samples or more", "1",
                 "test files in place of --test-fraction");
    split_.draw(options_.test_fraction, options_.seed);
    counting_ = false;
    in_file_ = 0;
}

void ImportSink::split(std::span<const std::byte> samples, std::span<const std::int32_t> labels,
                       std::span<const float> targets) {
    const std::size_t count = samples.size() / sample_bytes();
    const auto one = [&](const auto& all, std::size_t index) {
        return all.subspan(index * (all.size() / count), all.size() / count);
    };
    for (std::size_t sample = 0; sample < count; ++sample) {
        const std::int32_t label = labels.empty() ? TestSplit::kNoClass : labels[sample];
        const auto group = split_.goes_to_test(label) ? DatasetGroup::kTest : DatasetGroup::kTrain;
        writer_->append(group, one(samples, sample), one(labels, sample), one(targets, sample));
    }
    counted_again_ += static_cast<std::int64_t>(count);
}

void ImportSink::commit() {
    require_file(writer_ != nullptr, options_.output, "the inputs hold no samples", "", "");
    require_file(options_.test_fraction == 0 || counted_again_ == split_.samples(),
                 options_.inputs.front(), "the inputs changed while they were read",
                 fmt::format("{} samples", split_.samples()), fmt::format("{}", counted_again_));
    check_classes();
    writer_->commit();
}

std::size_t ImportSink::sample_bytes() const {
    return static_cast<std::size_t>(elements_of(spec_.sample_shape)) * value_bytes(spec_.type);
}

std::int64_t ImportSink::block_samples() const {
    return default_chunk_samples(sample_bytes());
}

}  // namespace cohort
