#include "causeway/base/field_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "causeway/base/error.h"

namespace causeway {
namespace {

// Where there are names, the sentence follows "Here that is NAME."
constexpr auto kWords = std::to_array<FieldWord>({
    // --- The optimizer and its schedule
    {NameOf::kRecipeKey, "lr learning_rate max_lr peak_lr base_lr lr_max max_learning_rate", "optimizer.learning_rate",
     ""},
    {NameOf::kRecipeKey, "min_lr lr_min min_learning_rate min_lr_ratio lr_end alpha_f end_lr", "schedule.final_factor",
     "It is a fraction of the peak."},
    {NameOf::kRecipeKey, "warmup warmup_iters warmup_steps lr_warmup_steps lr_warmup_iters num_warmup_steps t_warmup",
     "schedule.warmup_steps", ""},
    {NameOf::kRecipeKey, "warmup_ratio warmup_fraction lr_warmup_fraction warmup_percent pct_start",
     "schedule.warmup_steps", "It counts steps: the ratio times train.steps."},
    {NameOf::kRecipeKey,
     "lr_scheduler lr_scheduler_type lr_schedule lr_decay_style scheduler scheduler_type learning_rate_schedule",
     "schedule.kind", ""},
    {NameOf::kRecipeKey, "lr_decay_iters lr_decay_steps num_decay_steps decay_iters cooldown cooldown_steps",
     "schedule.decay_steps", "It is wsd's; the others decay until train.steps."},
    {NameOf::kRecipeKey, "wd weight_decay l2", "optimizer.weight_decay", ""},
    {NameOf::kRecipeKey, "adam_beta1 beta_1", "optimizer.beta1", ""},
    {NameOf::kRecipeKey, "adam_beta2 beta_2", "optimizer.beta2", ""},
    {NameOf::kRecipeKey, "betas adam_betas", "optimizer.beta1 optimizer.beta2", ""},
    {NameOf::kRecipeKey, "eps adam_eps adam_epsilon", "optimizer.epsilon", ""},
    {NameOf::kRecipeKey,
     "grad_clip max_grad_norm gradient_clipping gradient_clip_val gradient_clip_norm clip_grad clip_grad_norm "
     "max_norm grad_norm_clip",
     "optimizer.gradient_clip", ""},
    {NameOf::kRecipeKey, "optim optimizer optimizer_type optimizer_name", "optimizer.name", ""},
    {NameOf::kRecipeKey, "adamw adam adafactor muon lion sgd shampoo sophia", "optimizer.name",
     "`causeway recipe keys optimizer.name` lists the optimizers that there are."},
    {NameOf::kRecipeKey, "momentum sgd_momentum muon_momentum", "optimizer.momentum", ""},
    {NameOf::kRecipeKey, "nesterov", "optimizer.nesterov", ""},
    {NameOf::kRecipeKey, "ns_steps muon_ns_steps backend_steps", "optimizer.newton_schulz_steps", ""},
    {NameOf::kRecipeKey, "adjust_lr_fn adjust_lr muon_scale muon_scale_mode", "optimizer.update_scale", ""},
    {NameOf::kRecipeKey, "adam_lr adamw_lr scalar_lr embedding_lr embed_lr unembedding_lr",
     "optimizer.adamw_learning_rate optimizer.groups", ""},
    {NameOf::kRecipeKey, "muon_lr matrix_lr hidden_lr", "optimizer.learning_rate",
     "Of muon it is that of hidden matrices; optimizer.adamw_learning_rate that of the rest."},
    {NameOf::kRecipeKey,
     "param_groups parameter_groups optimizer_grouped_parameters no_decay no_weight_decay freeze freeze_layers frozen "
     "frozen_parameters unfrozen_parameters trainable trainable_layers freeze_embeddings layer_freezing",
     "optimizer.groups", "It takes patterns of parameters' names, with learning_rate, weight_decay or frozen."},
    {NameOf::kRecipeKey, "clip_value clip_grad_value gradient_clip_value gradient_clip_algorithm",
     "optimizer.gradient_clip optimizer.gradient_clip_by", ""},
    {NameOf::kRecipeKey, "cautious cautious_weight_decay", "optimizer.cautious_decay", ""},
    {NameOf::kRecipeKey, "label_smoothing neftune_noise_alpha", "",
     "There is no such term: the loss is cross-entropy."},
    {NameOf::kRecipeKey, "ema ema_decay weight_ema", "optimizer.average_decay", ""},
    {NameOf::kRecipeKey, "z_loss z_loss_coefficient z_loss_weight z_loss_coeff zloss auxiliary_loss_multiplier",
     "train.z_loss", ""},
    {NameOf::kRecipeKey,
     "router_aux_loss_coef moe_aux_loss_coeff aux_loss_coef aux_loss_alpha load_balancing_loss load_balance_coeff "
     "moe_loss_weight load_balance_loss_weight",
     "moe.balance_loss", ""},
    {NameOf::kRecipeKey, "moe_z_loss_coeff router_z_loss_coef moe_zloss_weight router_z_loss_coeff",
     "moe.router_z_loss", ""},
    {NameOf::kRecipeKey, "num_experts num_local_experts n_routed_experts num_moe_experts moe_num_experts",
     "model.experts", ""},
    {NameOf::kRecipeKey, "num_experts_per_tok moe_router_topk moe_top_k experts_top_k", "model.experts_per_token", ""},
    {NameOf::kRecipeKey, "moe_intermediate_size moe_ffn_hidden_size", "model.expert_ffn_width",
     "mixtral and olmoe have no other than model.ffn_width."},
    {NameOf::kRecipeKey, "shared_expert_intermediate_size moe_shared_expert_intermediate_size",
     "model.shared_expert_ffn_width", ""},
    {NameOf::kRecipeKey, "norm_topk_prob", "model.normalized_expert_weights", ""},
    {NameOf::kRecipeKey, "decoder_sparse_step moe_layer_freq", "model.sparse_step", ""},
    {NameOf::kRecipeKey, "first_k_dense_replace mlp_only_layers", "model.first_dense_layers", ""},
    {NameOf::kRecipeKey,
     "stochastic_rounding use_stochastic_rounding bf16_stochastic_round bf16_stochastic_rounding kahan kahan_sum "
     "kahan_summation use_kahan_summation optimi_kahan_sum master_weights main_params_dtype master_dtype",
     "optimizer.weights", "It is what trained matrices lie in: f32, bf16_stochastic or bf16_kahan."},
    // --- Steps and batches
    {NameOf::kRecipeKey,
     "max_steps num_steps total_steps train_steps training_steps train_iters max_iters num_iterations "
     "max_iterations iters iterations n_steps max_train_steps num_train_steps max_duration",
     "train.steps", ""},
    {NameOf::kRecipeKey, "epochs epoch num_epochs num_train_epochs max_epochs n_epochs train_epochs",
     "train.epochs train.steps", "A step takes train.batch_size sequences."},
    {NameOf::kRecipeKey, "batch_size global_batch_size train_batch_size global_train_batch_size gbs total_batch_size",
     "train.batch_size", "It counts the sequences of one optimizer step, of all devices."},
    {NameOf::kRecipeKey,
     "per_device_train_batch_size per_device_batch_size per_gpu_batch_size device_batch_size micro_batch "
     "train_micro_batch_size_per_gpu device_train_microbatch_size mbs local_batch_size microbatch_size",
     "train.micro_batch_size", "It counts the sequences of all devices: those of one, times mesh.dp and mesh.fsdp."},
    {NameOf::kRecipeKey,
     "gradient_accumulation_steps gradient_accumulation accumulate_grad_batches grad_accum grad_accum_steps "
     "accumulation_steps gas num_microbatches grad_acc_steps",
     "train.micro_batch_size", "train.batch_size over it is how many micro-batches a step adds up."},
    {NameOf::kRecipeKey, "per_device_eval_batch_size eval_batch_size device_eval_batch_size val_batch_size", "",
     "Evaluations take micro-batches of train.micro_batch_size."},
    {NameOf::kRecipeKey, "seed random_seed manual_seed data_seed rng_seed", "train.seed", ""},
    {NameOf::kRecipeKey, "deterministic full_determinism cudnn_deterministic", "",
     "Every run is deterministic: the same recipe gives the same bits."},
    // --- Precision, memory and speed
    {NameOf::kRecipeKey,
     "bf16 precision mixed_precision amp dtype torch_dtype compute_dtype param_dtype use_bf16 pure_bf16 fp8 tf32 "
     "allow_tf32 fp32 use_fp8",
     "train.precision",
     "It is bf16, fp8, fp8_block, tf32 or f32; weights lie as optimizer.weights says, in f32 unless told otherwise."},
    {NameOf::kRecipeKey, "fp16 float16 half use_fp16", "train.precision",
     "There is no fp16: train.precision=bf16 has its speed and needs no loss scale."},
    {NameOf::kRecipeKey, "loss_scale initial_loss_scale grad_scaler loss_scaling dynamic_loss_scale", "",
     "bf16 needs no loss scale, and fp8 scales its operands by itself."},
    {NameOf::kRecipeKey,
     "gradient_checkpointing activation_checkpointing activation_checkpoint checkpoint_activations recomputation "
     "recompute_granularity recompute_activations use_gradient_checkpointing remat",
     "train.recompute", "By itself (auto) it computes again what the device's memory asks for."},
    {NameOf::kRecipeKey,
     "flash_attention flash_attn use_flash_attention use_flash_attn attn_implementation attention_implementation "
     "flash sdpa xformers attn_impl flash_attention_2 use_sdpa sdp_attention",
     "", "Attention is always one fused kernel: there is nothing to turn on."},
    {NameOf::kRecipeKey, "compile torch_compile use_compile jit inductor liger use_liger_kernel fused_optimizer", "",
     "Every step is compiled and fused: there is nothing to turn on."},
    {NameOf::kRecipeKey,
     "cpu_offload offload_optimizer optimizer_offload optimizer_cpu_offload offload_optimizer_device",
     "offload.optimizer", "With true the optimizer's state lies in the host's memory."},
    {NameOf::kRecipeKey, "activation_offloading offload_activations cpu_offloading offload_activation",
     "offload.activations", "With true activations lie there between forward and backward."},
    {NameOf::kRecipeKey, "offload_param offload_params param_offload offload_parameters", "",
     "Weights stay on the device: offload.optimizer, offload.activations and mesh.fsdp save its memory."},
    {NameOf::kRecipeKey, "max_memory gpu_memory_utilization per_process_memory_fraction memory_limit gpu_memory_limit",
     "device_memory_limit", "In bytes, with a unit: 16GiB."},
    {NameOf::kRecipeKey,
     "load_in_8bit load_in_4bit quantization quantization_config bits bnb_4bit_compute_dtype bnb_4bit_quant_type "
     "bnb_4bit_use_double_quant quantize quantize_base qlora nf4",
     "lora.base", "With lora.base: nf4 (or f8) the base of adapters lies in 4 (or 8) bits; what is trained is in f32."},
    {NameOf::kRecipeKey, "on_nan nan_policy skip_nan check_for_nan_in_loss_and_grad", "train.on_non_finite", ""},
    // --- Adapters
    {NameOf::kRecipeKey, "lora lora_r lora_rank r rank adapter adapters peft peft_config use_peft use_lora",
     "lora.rank", "Above 0 there are adapters, which alone are trained."},
    {NameOf::kRecipeKey, "lora_alpha alpha", "lora.alpha", ""},
    {NameOf::kRecipeKey, "lora_dropout", "lora.dropout", ""},
    {NameOf::kRecipeKey,
     "lora_target_modules target_modules lora_modules lora_target_linear lora_targets lora_module_names "
     "modules_to_tune",
     "lora.targets", ""},
    {NameOf::kRecipeKey, "use_rslora rslora use_dora dora peft_use_rslora peft_use_dora lora_type", "lora.kind", ""},
    {NameOf::kRecipeKey, "lora_model_dir peft_model_path adapter_name_or_path adapter_path resume_from_adapter",
     "lora.from", ""},
    // --- What is not trained here
    {NameOf::kRecipeKey, "loftq", "",
     "Adapters begin at zero (or with lora.from), not with what a base in 4 bits (lora.base) lacks."},
    {NameOf::kRecipeKey, "dpo ipo orpo simpo reward_model preference_loss", "preference.loss", ""},
    {NameOf::kRecipeKey, "dpo_beta simpo_beta orpo_alpha", "preference.beta", ""},
    {NameOf::kRecipeKey, "simpo_gamma", "preference.margin", ""},
    {NameOf::kRecipeKey, "loss_type", "preference.loss grpo.loss_type", ""},
    {NameOf::kRecipeKey, "grpo rl rlvr reward_funcs reward_function reward_fn", "grpo.reward", ""},
    {NameOf::kRecipeKey, "group_size rollouts num_rollouts n_rollouts samples_per_prompt", "grpo.num_generations", ""},
    {NameOf::kRecipeKey, "max_new_tokens max_response_length response_length", "grpo.max_completion_length", ""},
    {NameOf::kRecipeKey, "clip_eps epsilon_low clip_ratio clip_ratio_low", "grpo.epsilon", ""},
    {NameOf::kRecipeKey, "clip_ratio_high", "grpo.epsilon_high", ""},
    {NameOf::kRecipeKey, "kl_coef kl_coeff kl_loss_coef kl_beta", "grpo.beta", ""},
    {NameOf::kRecipeKey, "ppo_epochs mu num_ppo_epochs", "grpo.num_iterations", ""},
    {NameOf::kRecipeKey, "ppo rlhf rloo kto", "",
     "Of training by preferences there are DPO, IPO, SimPO and ORPO (preference.loss), and of reinforcement learning "
     "GRPO (grpo.reward)."},
    {NameOf::kRecipeKey,
     "expert_parallel expert_parallel_size expert_model_parallel_size ep ep_size expert_parallel_degree", "",
     "Experts are not yet cut over ranks of their own: mesh.fsdp shares their weights, mesh.tp cuts each of them."},
    {NameOf::kRecipeKey, "moe n_experts", "model.experts model.experts_per_token", ""},
    {NameOf::kRecipeKey, "early_stopping early_stopping_patience patience load_best_model_at_end metric_for_best_model",
     "", "A run ends after train.steps; checkpoint.keep and evaluation.interval leave a choice."},
    // --- The mesh
    {NameOf::kRecipeKey,
     "deepspeed deepspeed_config zero zero_stage zero_optimization sharding_strategy full_shard fully_shard "
     "fsdp_config fsdp fsdp_size data_parallel_shard_degree sharding_group_size use_distributed_optimizer",
     "mesh.fsdp mesh.dp",
     "Both cut weights and the optimizer's state (ZeRO-3 gathers weights again: mesh.fsdp); causeway launch starts the "
     "processes."},
    {NameOf::kRecipeKey, "ddp dp data_parallel data_parallel_size dp_size data_parallel_replicate_degree dp_degree",
     "mesh.dp", "causeway launch -n N starts the processes."},
    {NameOf::kRecipeKey,
     "num_gpus n_gpus gpus world_size nproc_per_node num_processes nnodes num_nodes num_devices devices n_devices",
     "mesh.dp mesh.fsdp mesh.cp mesh.tp mesh.pp",
     "Their product is the number of devices; causeway launch -n N starts the processes."},
    {NameOf::kRecipeKey,
     "tp tensor_parallel tensor_parallel_size tensor_parallel_degree tensor_model_parallel_size tp_size tp_degree "
     "model_parallel_size",
     "mesh.tp", ""},
    {NameOf::kRecipeKey,
     "pp pipeline_parallel pipeline_parallel_size pipeline_parallel_degree pipeline_model_parallel_size pp_size "
     "pp_degree",
     "mesh.pp", ""},
    {NameOf::kRecipeKey, "cp context_parallel context_parallel_size context_parallel_degree cp_size ring_attention",
     "mesh.cp", ""},
    {NameOf::kRecipeKey, "sp sequence_parallel sequence_parallel_size sp_size ulysses enable_sequence_parallel",
     "mesh.tp mesh.cp", "Along mesh.tp the residual stream is cut by positions too; mesh.cp is for long sequences."},
    {NameOf::kRecipeKey,
     "virtual_pipeline_model_parallel_size num_layers_per_virtual_pipeline_stage virtual_stages interleave",
     "train.pipeline_chunks", ""},
    // --- The model, as other trainers name it, and config.json of families whose names no recipe may have
    {NameOf::kRecipeKey,
     "model_name_or_path pretrained_model_name_or_path base_model model_name hf_model init_from pretrained "
     "from_pretrained model_id pretrained_model model_path",
     "model.from", "It is a directory of Hugging Face's; nothing is downloaded."},
    {NameOf::kRecipeKey, "model_type architecture architectures arch model_arch", "model.family", ""},
    {NameOf::kRecipeKey, "vocab_size padded_vocab_size n_vocab vocab", "model.vocabulary_size", ""},
    {NameOf::kRecipeKey, "n_layer n_layers num_layers depth num_blocks", "model.layers", ""},
    {NameOf::kRecipeKey, "n_embd n_embed d_model dim hidden_dim embed_dim embedding_size model_dim", "model.width", ""},
    {NameOf::kRecipeKey, "n_head n_heads num_heads nheads", "model.heads", ""},
    {NameOf::kRecipeKey, "n_kv_head n_kv_heads num_kv_heads num_query_groups", "model.kv_heads", ""},
    {NameOf::kRecipeKey, "head_size d_head kv_channels", "model.head_dim", ""},
    {NameOf::kRecipeKey, "ffn_dim ffn_hidden_size d_ff mlp_dim n_inner mlp_ratio expansion_ratio", "model.ffn_width",
     "It is the size itself."},
    {NameOf::kRecipeKey, "n_positions", "model.max_sequence_length", ""},
    {NameOf::kRecipeKey, "layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps", "model.norm_epsilon", ""},
    {NameOf::kRecipeKey, "rotary_base rope_base rotary_emb_base", "model.rope_theta", ""},
    {NameOf::kRecipeKey, "rope_scaling", "model.rope_factor", ""},
    {NameOf::kRecipeKey, "window_size attention_window local_attention", "model.sliding_window", ""},
    {NameOf::kRecipeKey, "tie_word_embeddings weight_tying tied_embeddings tie_weights share_embeddings",
     "model.tie_embeddings", ""},
    {NameOf::kRecipeKey,
     "dropout_rate attention_dropout hidden_dropout resid_pdrop attn_pdrop embd_pdrop residual_dropout",
     "model.dropout", ""},
    {NameOf::kRecipeKey, "init_std init_method_std initializer_std", "model.initializer_range", ""},
    // --- Data
    {NameOf::kRecipeKey,
     "dataset datasets dataset_path dataset_name data_path data_dir train_data training_data train_file train_files "
     "train_dataset data_files input_bin train_bin",
     "data.path", "`causeway data prepare` makes it of text."},
    {NameOf::kRecipeKey, "mixture data_mixture dataset_mix blend blended data_weights dataset_weights", "data.sources",
     ""},
    {NameOf::kRecipeKey,
     "seq_len seq_length sequence_len seqlen block_size context_length ctx_len n_ctx max_seq_len max_seq_length "
     "cutoff_len max_length model_max_length window context_size",
     "data.sequence_length model.max_sequence_length",
     "The first is what is trained on, the second what the model is "
     "made for."},
    {NameOf::kRecipeKey, "sample_packing pack packed sequence_packing pack_sequences eval_packing", "data.packing", ""},
    {NameOf::kRecipeKey, "reset_attention_mask intra_document_masking cross_document_attention varlen doc_mask",
     "data.document_mask", ""},
    {NameOf::kRecipeKey, "shuffle shuffle_seed shuffle_buffer shuffle_buffer_size", "",
     "Samples always come in an order drawn from train.seed."},
    {NameOf::kRecipeKey,
     "num_workers dataloader_num_workers prefetch_factor pin_memory dataloader_pin_memory preprocessing_num_workers "
     "drop_last",
     "", "Batches are always read ahead of the step: there is nothing to set."},
    {NameOf::kRecipeKey, "tokenizer tokenizer_name tokenizer_path tokenizer_model tokenizer_type", "",
     "The data's tokenizer is the model's: `causeway data prepare --tokenizer` chooses it."},
    {NameOf::kRecipeKey, "text_column text_field text_key dataset_text_field content_key", "",
     "Text is read by `causeway data prepare --text-key NAME`; ids of MDS by data.column."},
    {NameOf::kRecipeKey,
     "val_split validation_split val_fraction validation_fraction val_set_size test_size eval_split "
     "validation_split_percentage val_data validation_file eval_dataset val_dataset",
     "", "Held-out text is the dataset's: `causeway data prepare --validation` or --validation-fraction."},
    {NameOf::kRecipeKey, "streaming", "data.path", "Data is always read as it is needed."},
    // --- What a run writes
    {NameOf::kRecipeKey, "run_name experiment_name exp_name job_name experiment", "name", ""},
    {NameOf::kRecipeKey,
     "output_dir out_dir save_dir save_folder save_path output_path checkpoint_dir ckpt_dir dump_folder log_dir "
     "logging_dir output",
     "run_directory", ""},
    {NameOf::kRecipeKey,
     "save_steps save_interval save_every save_freq save_frequency checkpoint_interval checkpoint_every "
     "checkpointing_steps ckpt_interval ckpt_freq every_n_train_steps",
     "checkpoint.interval", ""},
    {NameOf::kRecipeKey, "save_strategy", "checkpoint.interval checkpoint.interval_minutes", ""},
    {NameOf::kRecipeKey,
     "save_total_limit keep_last_n keep_latest_k max_checkpoints save_num_checkpoints_to_keep keep_last "
     "max_to_keep",
     "checkpoint.keep", ""},
    {NameOf::kRecipeKey, "async_save async_checkpoint async_mode use_async_checkpoint", "checkpoint.asynchronous", ""},
    {NameOf::kRecipeKey, "resume resume_from_checkpoint load_checkpoint load_path auto_resume autoresume", "",
     "Whether a run goes on is said on the command line: causeway train RECIPE --resume auto."},
    {NameOf::kRecipeKey,
     "logging_steps log_steps log_interval log_every log_freq log_frequency log_every_n_steps print_every "
     "logging_interval",
     "log.interval", ""},
    {NameOf::kRecipeKey,
     "eval_steps eval_interval eval_every eval_freq eval_frequency eval_strategy evaluation_strategy "
     "evaluation_steps val_interval val_check_interval",
     "evaluation.interval", ""},
    {NameOf::kRecipeKey,
     "eval_iters eval_batches val_batches limit_val_batches max_eval_samples eval_subset_num_batches",
     "evaluation.sequences", ""},
    {NameOf::kRecipeKey,
     "wandb wandb_project wandb_entity wandb_run_name use_wandb wandb_log report_to mlflow comet comet_ml neptune "
     "clearml swanlab trackio loggers aim",
     "",
     "No service is told of a run: it writes metrics.jsonl, and TensorBoard's files (log.tensorboard), which such "
     "services read."},
    {NameOf::kRecipeKey, "tensorboard use_tensorboard tensorboard_dir enable_tensorboard", "log.tensorboard", ""},
    {NameOf::kRecipeKey, "profile profiler profiling enable_profiling profile_step_start", "log.trace_from", ""},
    {NameOf::kRecipeKey, "push_to_hub hub_model_id hub_token", "",
     "Nothing is uploaded: `causeway export` writes a Hugging Face directory."},
    {NameOf::kRecipeKey, "accelerator device_map local_rank", "device", ""},

    // --- Values
    {NameOf::kPrecision, "fp16 float16 half f16 16 16_mixed fp16_mixed", "bf16",
     "There is no fp16: bf16 has its speed and needs no loss scale."},
    {NameOf::kPrecision, "bfloat16 bf16_mixed mixed amp amp_bf16 torch.bfloat16 bf16_true mixed_bf16", "bf16", ""},
    {NameOf::kPrecision, "fp32 float32 float full single 32 32_true torch.float32", "f32", ""},
    {NameOf::kPrecision, "fp64 float64 f64 double", "f32", "Nothing is trained in 64 bits."},
    {NameOf::kPrecision, "amp_fp8 float8 fp8_delayed fp8_tensorwise e4m3 f8 fp8_hybrid", "fp8", ""},
    {NameOf::kPrecision, "fp8_blockwise deepseek", "fp8_block", ""},
    {NameOf::kPrecision, "mxfp8 mxfp4 nvfp4 fp4 int8 int4 fp6", "",
     "There is no such type here: choose one of bf16, fp8, fp8_block, tf32, f32."},
    {NameOf::kDevice, "gpu accelerator", "cuda hip auto", "cuda is NVIDIA's, hip AMD's; auto takes what is there."},
    {NameOf::kDevice, "nvidia", "cuda", ""},
    {NameOf::kDevice, "amd rocm radeon", "hip", ""},
    {NameOf::kDevice, "host", "cpu", ""},
    {NameOf::kDevice, "mps metal tpu xla xpu intel npu hpu gaudi opencl vulkan sycl oneapi directml", "",
     "There is no support for it."},
    {NameOf::kSchedule, "cosine_with_restarts cosine_with_min_lr cosine_annealing cosine_with_warmup warmup_cosine",
     "cosine", "Warm-up is schedule.warmup_steps, the last learning rate schedule.final_factor."},
    {NameOf::kSchedule, "constant_with_warmup none", "constant", "Warm-up is schedule.warmup_steps."},
    {NameOf::kSchedule, "linear_with_warmup linear_decay", "linear", "Warm-up is schedule.warmup_steps."},
    {NameOf::kSchedule, "warmup_stable_decay trapezoidal trapezoid", "wsd", ""},
    {NameOf::kSchedule, "polynomial inverse_sqrt inv_sqrt exponential step onecycle one_cycle reduce_lr_on_plateau", "",
     "Choose one of constant, linear, cosine, wsd."},
    {NameOf::kRecompute, "full true all on", "block", ""},
    {NameOf::kRecompute, "false off no", "none", ""},
    {NameOf::kPipelineSchedule, "zb zb_h1 zbh1 zero_bubbles zb1p", "zero_bubble", ""},
    {NameOf::kPipelineSchedule, "interleaved_1f1b interleaved1f1b virtual looped", "interleaved", ""},
    {NameOf::kPipelineSchedule, "gpipe", "1f1b", "It takes as long and keeps fewer activations."},
    {NameOf::kPipelineSchedule, "dualpipe zbv zb_v zbvzerobubble", "", "Choose one of 1f1b, interleaved, zero_bubble."},

    {NameOf::kOptimizer, "soap shampoo", "",
     "It needs eigenvectors, by a QR of matrices within a step, which is not here. The nearest are muon and normuon."},
    {NameOf::kOptimizer,
     "adam adamw_torch adamw_torch_fused adamw_fused fused_adam fused_adamw adamw_hf adamw_apex_fused", "adamw", ""},
    {NameOf::kOptimizer, "adamw8bit adamw_8bit adamw_bnb_8bit adam8bit adam_8bit adamw_torch_8bit", "adamw",
     "With optimizer.moments=8bit its averages lie in 8 bits."},
    {NameOf::kOptimizer,
     "paged_adamw8bit paged_adamw_8bit pagedadamw8bit paged_adamw paged_adamw_32bit pagedadamw pagedadamw32bit",
     "adamw",
     "With offload.optimizer=true its state lies in the host's memory, with optimizer.moments=8bit its averages in 8 "
     "bits."},
    {NameOf::kOptimizer, "lion_8bit lion8bit lion_32bit paged_lion_8bit paged_lion_32bit", "lion",
     "Its average lies in f32."},
    {NameOf::kOptimizer, "schedule_free_radam schedule_free_sgd schedule_free schedulefree adamw_schedulefree",
     "schedule_free_adamw", ""},

    // --- Families that are not here; other names of those that are: ModelFamily::other_names
    {NameOf::kModelFamily,
     "dbrx jamba deepseek deepseek_v2 deepseek_v3 gpt_oss phimoe granitemoe llama4 grok arctic minimax kimi glm4_moe",
     "", "It is not here: of those whose layers have experts there are mixtral, olmoe, qwen2_moe and qwen3_moe."},
    {NameOf::kModelFamily,
     "mistral3 mistral4 ministral ministral3 pixtral gemma gemma3 gemma3n gemma4 olmo olmo3 "
     "llama_guard qwen3_5 qwen3_next qwen2_vl qwen3_vl mllama llava",
     "", "It is another architecture than its namesakes, and not here."},
    {NameOf::kModelFamily,
     "bert roberta electra deberta modernbert xlnet t5 flan_t5 bart mbart pegasus whisper vit "
     "clip marian albert",
     "", "It is not here: the families are decoders of text."},
    {NameOf::kModelFamily,
     "phi phi2 phi3 phi4 falcon bloom opt gptj gpt_j gptneo gpt_neo gpt_neox gptneox pythia "
     "starcoder starcoder2 gpt_bigcode codegen cohere command_r mamba mamba2 rwkv stablelm "
     "internlm internlm2 baichuan chatglm glm glm4 granite nemotron exaone minicpm "
     "persimmon recurrentgemma gpt3 gpt4 gpt1 santacoder hyena retnet",
     "", "It is not here."},

    // --- The command line
    {NameOf::kCommand, "finetune fine_tune sft pretrain pretraining fit run start resume continue", "train",
     "model.from=DIRECTORY begins with a model's weights, --resume auto goes on with a run."},
    {NameOf::kCommand, "eval lm_eval test score validate perplexity", "evaluate", ""},
    {NameOf::kCommand, "benchmark perf profile", "bench", ""},
    {NameOf::kCommand, "sample chat infer inference predict complete run_model", "generate", ""},
    {NameOf::kCommand, "serve server api deploy", "generate", "There is no server."},
    {NameOf::kCommand, "convert hf", "import export", "import reads a Hugging Face directory, export writes one."},
    {NameOf::kCommand, "tokenize preprocess prepare dataset prepare_data", "data tokenizer",
     "`causeway data prepare` makes a dataset of text."},
    {NameOf::kCommand, "info diagnose env devices system check status", "doctor", ""},
    {NameOf::kCommand, "version", "", "causeway --version prints it."},
    {NameOf::kCommand, "estimate memory simulate cost search", "plan", ""},
    {NameOf::kCommand, "mpirun torchrun accelerate distributed deepspeed srun", "launch", ""},
    {NameOf::kCommand, "recipes config configs keys", "recipe", ""},
    {NameOf::kCommand, "clean clear", "cache", ""},
    {NameOf::kCommand, "lora merge quantize quantise download upload push", "", "There is no such thing here."},
    {NameOf::kOption, "max_new_tokens max_tokens num_tokens n_predict length new_tokens", "tokens", ""},
    {NameOf::kOption, "temp", "temperature", ""},
    {NameOf::kOption, "num_fewshot fewshot few_shot num_shots", "shots", ""},
    {NameOf::kOption, "out output_dir out_dir output_path", "output", ""},
    {NameOf::kOption, "force", "overwrite", ""},
    {NameOf::kOption, "key column field text_column text_field json_key json_keys", "text-key", ""},
    {NameOf::kOption, "workers num_workers jobs num_proc", "threads", ""},
    {NameOf::kOption, "val_fraction val_split validation_split test_size", "validation-fraction", ""},
    {NameOf::kOption, "vocab_size vocab vocabulary_size", "vocabulary", ""},
    {NameOf::kOption, "gpu machine gpu_type", "hardware", ""},
    {NameOf::kOption, "nproc np num_processes nproc_per_node num_gpus gpus devices ranks", "n", ""},
});

// "Adam-Beta1" as "adam_beta1".
std::string normalized(std::string_view name) {
  std::string text(name);
  for (char& letter : text)
    letter = letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(separator, from), text.size());
    if (to > from) parts.emplace_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

bool has_word(std::string_view words, std::string_view word) {
  const std::vector<std::string> all = split(words, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

const FieldWord* find_word(NameOf what, std::string_view word, std::span<const FieldWord> more = {}) {
  for (const std::span<const FieldWord> words : {more, field_words()})
    for (const FieldWord& entry : words)
      if (entry.what == what && has_word(entry.words, word)) return &entry;
  return nullptr;
}

std::string text_of(const FieldWord& entry, const std::vector<std::string>& candidates) {
  const auto is_unknown = [&](const std::string& name) {
    return std::find(candidates.begin(), candidates.end(), name) == candidates.end();
  };
  // One of the words themselves where that is a name: f16 of products.
  std::vector<std::string> names = split(entry.words, ' ');
  std::erase_if(names, is_unknown);
  if (!names.empty()) return fmt::format("Did you mean {}?", fmt::join(names, " or "));
  names = split(entry.names, ' ');
  std::erase_if(names, is_unknown);
  if (names.empty()) return entry.names.empty() ? std::string(entry.sentence) : "";
  if (entry.what == NameOf::kOption)
    for (std::string& name : names) name = (name.size() > 1 ? "--" : "-") + name;
  const std::string last = names.back();
  names.pop_back();
  const std::string list = names.empty() ? last : fmt::format("{} or {}", fmt::join(names, ", "), last);
  return fmt::format("Here that is {}.{}{}", list, entry.sentence.empty() ? "" : " ", entry.sentence);
}

// Names whose last part is the same: a right name in the wrong place.
std::string misplaced(const std::string& last, const std::vector<std::string>& candidates) {
  std::vector<std::string> places;
  for (const std::string& name : candidates)
    if (name.ends_with("." + last) || name == last) places.push_back(name);
  return places.empty() ? "" : fmt::format("Did you mean {}?", fmt::join(places, " or "));
}

std::string recipe_key_hint(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> parts = split(normalized(name), '.');
  if (parts.empty()) return {};
  const auto is_section = [&](const std::string& part) {
    return std::any_of(candidates.begin(), candidates.end(),
                       [&](const std::string& key) { return key.starts_with(part + "."); });
  };
  // What is not here is not here under another section's name either: lora.dropout.
  for (const std::string& part : parts)
    if (const FieldWord* entry = find_word(NameOf::kRecipeKey, part);
        entry != nullptr && entry->names.empty() && !(parts.size() > 1 && is_section(part)))
      return text_of(*entry, candidates);
  // A section's own name, which is also the last part of a key of another section: optimizer, offload.optimizer.
  if (parts.size() == 1 && is_section(parts.front()))
    if (const FieldWord* entry = find_word(NameOf::kRecipeKey, parts.front()))
      if (std::string hint = text_of(*entry, candidates); !hint.empty()) return hint;
  if (std::string hint = misplaced(parts.back(), candidates); !hint.empty()) return hint;
  if (parts.size() > 1)
    if (const FieldWord* entry = find_word(NameOf::kRecipeKey, parts[parts.size() - 2] + "_" + parts.back()))
      if (std::string hint = text_of(*entry, candidates); !hint.empty()) return hint;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    if (!is_section(*part) || parts.size() == 1)
      if (const FieldWord* entry = find_word(NameOf::kRecipeKey, *part))
        if (std::string hint = text_of(*entry, candidates); !hint.empty()) return hint;
  if (const std::string nearest = nearest_name(name, candidates); !nearest.empty())
    return fmt::format("Did you mean {}?", nearest);
  // A typing mistake in the wrong place.
  std::vector<std::string> lasts;
  for (const std::string& key : candidates) lasts.push_back(key.substr(key.rfind('.') + 1));
  const std::string nearest = nearest_name(parts.back(), lasts);
  return nearest.empty() ? "" : misplaced(nearest, candidates);
}

}  // namespace

std::span<const FieldWord> field_words() { return kWords; }

std::string name_hint(NameOf what, std::string_view name, const std::vector<std::string>& candidates,
                      std::string_view otherwise, std::span<const FieldWord> more) {
  std::string hint;
  if (what == NameOf::kRecipeKey) {
    hint = recipe_key_hint(name, candidates);
  } else {
    if (const FieldWord* entry = find_word(what, normalized(name), more)) hint = text_of(*entry, candidates);
    if (hint.empty())
      if (const std::string nearest = nearest_name(name, candidates); !nearest.empty())
        hint = fmt::format("Did you mean {}{}?",
                           what != NameOf::kOption ? ""
                           : nearest.size() > 1    ? "--"
                                                   : "-",
                           nearest);
  }
  return hint.empty() ? std::string(otherwise) : hint;
}

}  // namespace causeway
