// Folders of images: a folder per class, or one per class in train and one in test.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/core/rng.hpp"
#include "core/log.hpp"

#include "data/import/image_file.hpp"
#include "data/import/import_formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace cohort {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLayout =
    "FOLDER/CLASS/IMAGE, or FOLDER/train/CLASS/IMAGE and FOLDER/test/CLASS/IMAGE";

std::string class_folder(const std::string& image) {
    return fs::path(image).parent_path().filename().string();
}

/// Folders between the given one and the image: 1 or 2.
std::ptrdiff_t depth_of(const std::string& root, const std::string& image) {
    const fs::path inside = fs::path(image).lexically_relative(root);
    return std::distance(inside.begin(), inside.end()) - 1;
}

std::vector<std::string> classes_of(const std::vector<ImportFile>& images) {
    std::set<std::string> train;
    std::set<std::string> test;
    for (const ImportFile& image : images) {
        (image.group == DatasetGroup::kTrain ? train : test).insert(class_folder(image.path));
    }
    for (const std::string& name : test) {
        require_file(train.contains(name), name, "a class of test images without train images",
                     fmt::format("{}", fmt::join(train, ", ")), name);
    }
    return {train.begin(), train.end()};
}

/// The size and the channels in which all images are stored.
Image common_form(const std::vector<ImportFile>& images, const ImportOptions& options) {
    Image form;
    for (const ImportFile& image : images) {
        const ImageFacts facts = image_facts(image.path);
        form.channels = facts.colour ? 3 : form.channels;
        if (options.size) {
            std::tie(form.height, form.width) = *options.size;
            continue;
        }
        const bool first = form.height == 0;
        require_file(first || (facts.height == form.height && facts.width == form.width),
                     image.path, "the image has another size than the first",
                     fmt::format("{}x{}", form.height, form.width),
                     fmt::format("{}x{}", facts.height, facts.width), "--size HxW");
        form.height = facts.height;
        form.width = facts.width;
    }
    return form;
}

/// In an order drawn from the seed: training shuffles within some chunks only.
void shuffle(std::vector<ImportFile>& images, std::uint64_t seed) {
    Rng rng(seed, RngPurpose::kImport);
    for (std::size_t left = images.size(); left > 1; --left) {
        std::swap(images[left - 1], images[rng.next_below(static_cast<std::uint32_t>(left))]);
    }
}

}  // namespace

std::vector<std::string> list_images(const std::string& root) {
    std::vector<std::string> images;
    std::vector<std::string> others;
    std::error_code error;
    const auto options = fs::directory_options::follow_directory_symlink;
    for (fs::recursive_directory_iterator at(root, options, error), end; !error && at != end;
         at.increment(error)) {
        std::error_code unknown;
        const std::string path = at->path().string();
        if (at->path().filename().string().starts_with('.')) {
            if (at->is_directory(unknown)) {
                at.disable_recursion_pending();
            }
        } else if (!at->is_directory(unknown)) {
            (named_image(path) ? images : others).push_back(path);
        }
    }
    require_file(!error, root, "cannot list the folder", "", error.message());
    require_file(!images.empty(), root, "the folder has no images (.png, .jpg, .jpeg)", kLayout,
                 "");
    if (!others.empty()) {
        log_info("{}: passed over {} files that are no images, such as {}", root, others.size(),
                 *std::ranges::min_element(others));
    }
    std::ranges::sort(images);
    const std::ptrdiff_t depth = depth_of(root, images.front());
    for (const std::string& image : images) {
        const std::ptrdiff_t own = depth_of(root, image);
        require_file(own == depth && (own == 1 || own == 2), image,
                     "the image lies at an unexpected place", kLayout, "");
    }
    return images;
}

std::string split_folder(const std::string& root, const std::string& image) {
    const fs::path inside = fs::path(image).lexically_relative(root);
    return depth_of(root, image) == 2 ? inside.begin()->string() : "";
}

std::string import_folder(std::vector<ImportFile> images, const ImportOptions& options,
                          ImportSink& sink) {
    const std::vector<std::string> classes = classes_of(images);
    const Image form = common_form(images, options);
    shuffle(images, options.seed);
    for (const ImportFile& file : images) {
        const Image image = read_image(file.path, form.channels == 3);
        const std::vector<std::uint8_t> sample =
            channels_first(resized(image, form.height, form.width));
        const auto found = std::ranges::lower_bound(classes, class_folder(file.path));
        const auto label = static_cast<std::int32_t>(found - classes.begin());
        sink.begin({file, file}, {form.channels, form.height, form.width}, SampleType::kU8,
                   static_cast<std::int64_t>(classes.size()));
        sink.append(std::as_bytes(std::span(sample)), {&label, 1});
    }
    return fmt::format("{} images, classes {}", images.size(), fmt::join(classes, ", "));
}

}  // namespace cohort
